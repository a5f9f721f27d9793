"""The golden run: the graphs in ONNX Runtime against PyTorch, with and without a cache.

The reference is float32 without a cache, whatever the precision of the graphs.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch

from edgeformer.contract import DTYPES, Graph
from edgeformer.errors import CheckFailed
from edgeformer.export.half import TooLarge, rounded
from edgeformer.export.measure import LIMITS, Measured, check_same, measured, top
from edgeformer.export.threads import one_thread
from edgeformer.manifest_embedding import Embedding
from edgeformer.manifest_golden import Top
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.step import CachedStep

MOST_STEPS = 64
MOST_PROMPT = 512  # the reference holds logits of the whole text
BUCKET = 64  # rows; the runtime grows the cache inputs by as many


@dataclass(frozen=True)
class Golden:
    """A prompt, the tokens that follow it greedily, and how far the graphs were from PyTorch."""

    prompt_ids: tuple[int, ...]
    greedy_ids: tuple[int, ...]
    largest_logit_error: float
    largest_kl: float
    top1: float
    top: Top

    @property
    def distinct(self) -> int:
        return len(set(self.greedy_ids))


@dataclass(frozen=True)
class Reference:
    """What PyTorch says: tokens of the cached step, logits of the uncached decoder."""

    prompt_ids: tuple[int, ...]
    greedy_ids: tuple[int, ...]
    logits: np.ndarray  # [steps, vocab]
    cached: Measured  # the cached step in the graphs' precision


class Rows:
    """The cache of a run: one array, and the position that each row holds."""

    def __init__(
        self, config: ModelConfig, capacity: int, most: int, dtype: str = "float32"
    ) -> None:
        """`most`: rows that the run will use. P grows as it does on a device, by buckets."""
        self.bucket = min(BUCKET, capacity)
        rows = -(-most // self.bucket) * self.bucket
        self.data = np.zeros((2 * config.n_layers, rows, config.kv_width), dtype)
        self.positions = np.full(rows, -1, np.int32)
        self.used = 0

    def past(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Positions [P] and one [P, kv_width] a cached tensor; P is a whole number of buckets."""
        p = max(1, -(-self.used // self.bucket)) * self.bucket
        return self.positions[:p], list(self.data[:, :p])

    def append(self, new: Sequence[np.ndarray]) -> None:
        n = len(new[0])
        for rows, added in zip(self.data, new, strict=True):
            rows[self.used : self.used + n] = added
        self.positions[self.used : self.used + n] = np.arange(self.used, self.used + n)
        self.used += n

    def copy_from(self, other: Rows) -> None:
        self.data[:], self.positions[:], self.used = other.data, other.positions, other.used


def reference(
    decoder: Decoder, prompt_ids: Sequence[int], steps: int, capacity: int, chunk: int
) -> Reference:
    """Greedy with the cached step, then the whole text at once without a cache."""
    step = CachedStep(decoder)
    rows = Rows(decoder.config, capacity, len(prompt_ids) + steps)
    cached = []
    token_ids = list(prompt_ids)
    with torch.inference_mode(), one_thread():
        for start in range(0, len(prompt_ids), chunk):
            logits = _torch_step(step, rows, prompt_ids[start : start + chunk])
        for _ in range(steps - 1):
            cached.append(logits)
            token_ids.append(int(logits.argmax()))
            logits = _torch_step(step, rows, token_ids[-1:])
        cached.append(logits)
        token_ids.append(int(logits.argmax()))
    with torch.inference_mode():
        whole = torch.tensor([token_ids[:-1]])
        logits = decoder(whole)[0, len(prompt_ids) - 1 :].numpy()  # [steps, vocab]
    greedy = tuple(token_ids[len(prompt_ids) :])
    error = measured("the cached PyTorch step", cached, logits, "fp32")
    return Reference(tuple(prompt_ids), greedy, logits, error)


def half_reference(ref: Reference, decoder: Decoder, capacity: int, chunk: int) -> Reference:
    """The same text through the cached step of a half-precision decoder, as an engine computes it.

    Each token is fed the golden text: one that rounding turns does not hide the rest.
    """
    step, prompt_ids = CachedStep(decoder), ref.prompt_ids
    rows = Rows(decoder.config, capacity, len(prompt_ids) + len(ref.greedy_ids), "float16")
    try:
        with torch.inference_mode(), one_thread(), rounded(decoder):
            for start in range(0, len(prompt_ids), chunk):
                logits = _torch_step(step, rows, prompt_ids[start : start + chunk])
            found = [logits, *(_torch_step(step, rows, [token]) for token in ref.greedy_ids[:-1])]
    except TooLarge as found:
        raise CheckFailed(
            f"{found.module or 'the embedding or the head'} has {found.why} (in {found.operator}) "
            "in the cached step of the golden run; export it in fp32, nothing was written"
        ) from None
    error = measured("the cached PyTorch step in fp16", found, ref.logits, "fp16")
    return dataclasses.replace(ref, cached=error)


def check_graphs(
    folder: Path,
    graphs: dict[str, Graph],
    config: ModelConfig,
    ref: Reference,
    capacity: int,
    chunk: int,
    stage: Callable[[str], None] = lambda text: None,
    precision: str = "fp32",
    embedding: Embedding | None = None,
) -> Golden:
    """Run both graphs, one after the other, and compare the logits of every step."""
    most, dtype = len(ref.prompt_ids) + len(ref.greedy_ids), DTYPES[precision]
    rows, after_prompt = (Rows(config, capacity, most, dtype) for _ in range(2))
    table = None if embedding is None else table_of(folder, embedding)
    stage("run prefill.onnx")
    packed = precision not in LIMITS  # ONNX Runtime computes with blocks only when it packs them
    with _session(folder / graphs["prefill"].file, packed) as graph:
        for start in range(0, len(ref.prompt_ids), chunk):
            first = _run(graph, rows, ref.prompt_ids[start : start + chunk], table)
        after_prompt.copy_from(rows)
        rest = [_run(graph, rows, [token], table) for token in ref.greedy_ids[:-1]]
    worst = ref.cached.worse(measured("prefill.onnx", [first, *rest], ref.logits, precision))
    of_prefill = rest
    stage("run decode.onnx")
    with _session(folder / graphs["decode"].file, packed) as graph:
        rest = [_run(graph, after_prompt, [token], table) for token in ref.greedy_ids[:-1]]
    if packed:
        check_same("decode.onnx differs from prefill.onnx", rest, of_prefill, worst)
    worst = worst.worse(measured("decode.onnx", [first, *rest], ref.logits, precision))
    error, divergence = (float(f"{x:.3g}") for x in (worst.logit_error, worst.kl))
    return Golden(ref.prompt_ids, ref.greedy_ids, error, divergence, worst.top1, top(ref.logits))


def _torch_step(step: CachedStep, rows: Rows, token_ids: Sequence[int]) -> np.ndarray:
    """One cached step in PyTorch; logits of the last token, [vocab]."""
    inputs = [torch.from_numpy(array) for array in _inputs(rows, token_ids)]
    logits, *new = step(*inputs)
    rows.append([tensor.numpy() for tensor in new])
    return logits[0].numpy()


def table_of(folder: Path, embedding: Embedding) -> np.ndarray:
    shape = embedding.rows, embedding.width
    return np.memmap(folder / embedding.file, embedding.dtype, "r", embedding.offset, shape)


def _run(
    graph: ort.InferenceSession,
    rows: Rows,
    token_ids: Sequence[int],
    table: np.ndarray | None = None,
) -> np.ndarray:
    """One step of a graph; logits of the last token, [vocab]."""
    names = [value.name for value in graph.get_inputs()]
    inputs = _inputs(rows, token_ids)
    if "rows" not in names:
        del inputs[3]
    if table is not None:
        inputs[0] = table[inputs[0]]  # [T, d_model]
    logits, *new = graph.run(None, dict(zip(names, inputs, strict=True)))
    rows.append(new)
    return logits[0]


def _inputs(rows: Rows, token_ids: Sequence[int]) -> list[np.ndarray]:
    """The inputs of prefill, in order; logits are asked of the last token."""
    n = len(token_ids)
    positions, past = rows.past()
    token_ids = np.array(token_ids, np.int32)
    new_positions = np.arange(rows.used, rows.used + n, dtype=np.int32)
    return [token_ids, new_positions, positions, np.array([n - 1], np.int32), *past]


@contextlib.contextmanager
def _session(path: Path, packed: bool = False) -> Iterator[ort.InferenceSession]:
    graph = open_graph(path, packed)
    try:
        yield graph
    finally:
        del graph


def open_graph(path: Path, packed: bool = False) -> ort.InferenceSession:
    """Unless `packed` the weights are left where they are mapped, and no copy is packed."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_prepacking", "0" if packed else "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
