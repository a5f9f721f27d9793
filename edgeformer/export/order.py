"""What is to be exported, checked as far as it can be without weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgeformer.errors import EdgeformerError
from edgeformer.export.gate import Gate
from edgeformer.export.precisions import Precision, check_precision, is_fused
from edgeformer.export.reading import Texts
from edgeformer.export.source import Source, check_capacity
from edgeformer.export.words import Words
from edgeformer.manifest import EXACT, Sampling
from edgeformer.nn.config import ModelConfig

CHUNK, PANELS_CHUNK = 128, 256  # panels are put together anew in each step (export.panels)
FP16_ENGINES = ("fp32", "int8-qdq")  # precisions of graphs from which a builder may make them


@dataclass(frozen=True)
class Form:
    """Of the graphs."""

    config: ModelConfig
    target: str
    precision: Precision
    embedding: str
    fused: int | None  # rows of the cache of the one graph of dialect `ort`; None: portable graphs
    capacity: int
    chunk: int
    exact: bool  # steps of several tokens give the bits of steps of one

    @property
    def audited(self) -> bool:
        """Whether something will be FP16: the graphs, or engines on a Jetson."""
        name = self.precision.name
        return name == "fp16" or (name in FP16_ENGINES and self.target.startswith("jetson"))

    @property
    def quantized(self) -> bool:
        return self.precision.quantize is not None


@dataclass(frozen=True)
class Order:
    """One bundle."""

    name: str
    source: Source
    form: Form
    words: Words | None
    ends: tuple[int, ...]  # where there is no tokenizer
    golden_prompt: str | Sequence[int] | None
    default_prompt: str | None
    sampling: Sampling
    texts: Texts
    gate: Gate


def checked_form(
    config: ModelConfig,
    precision: str,
    target: str,
    embedding: str,
    dialect: str | None,
    block: int | None,
    capacity: int,
    chunk: int | None,
    exact: bool,
) -> Form:
    """Raises EdgeformerError where these do not go together. chunk None: what is sensible."""
    fused = is_fused(dialect, precision, target, embedding)
    return Form(
        config=config,
        target=target,
        precision=check_precision(precision, target, embedding, block),
        embedding=embedding,
        fused=capacity if fused else None,
        capacity=capacity,
        chunk=_checked_chunk(config, capacity, chunk, fused and precision == "fp32"),
        exact=_checked_exact(exact, precision, fused),
    )


def _checked_chunk(config: ModelConfig, capacity: int, asked: int | None, panels: bool) -> int:
    check_capacity(config, capacity)
    usual = PANELS_CHUNK if panels else CHUNK
    chunk = min(usual, capacity) if asked is None else asked
    if not 1 <= chunk <= capacity:
        raise EdgeformerError(
            f"[graph] chunk is {chunk}; it must be at least 1 and at most the capacity, {capacity}"
        )
    return chunk


def _checked_exact(asked: bool, precision: str, fused: bool) -> bool:
    if asked and not (fused and precision == EXACT):
        raise EdgeformerError(
            f"exact steps are for {EXACT} in dialect ort, not for {precision}"
            f"{'' if fused else ' in dialect portable'}; leave out --exact-steps ([graph] "
            f"exact_steps), or say --target cpu --precision {EXACT}"
        )
    return asked
