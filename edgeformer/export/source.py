"""The model that a recipe names, before its weights are read, and where it came from."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.export.recipe import ModelSource
from edgeformer.export.words import Words, read_words
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder

DEFAULT_CAPACITY = 1024
# Long enough that a greedy run says something, and known to every tokenizer that reads English.
DEFAULT_PROMPT = "Once upon a time, in a small town by the sea, there lived"


@dataclass(frozen=True)
class Source:
    """Where a decoder came from, as the manifest says it."""

    checkpoint: str
    sha256: str | None = None
    license: str | None = None


@dataclass(frozen=True)
class Given:
    """A model whose weights are not read yet. `config` is cut to the capacity."""

    config: ModelConfig
    capacity: int
    load: Callable[[], Decoder]
    words: Words | None
    ends: tuple[int, ...]  # ids that end a text, as the checkpoint's configs name them
    sampling: dict[str, Any]  # the checkpoint's own, of the fields of a manifest
    source: Source
    golden_prompt: str | None  # where the recipe names none


def given_model(
    model: ModelSource, license: str | None, capacity: int | None, tokenizer: bool = True
) -> Given:
    """`tokenizer` False: the checkpoint's own is not even looked at."""
    if model.preset is not None:
        return _preset(model, license, capacity)
    return _checkpoint(model.checkpoint or model.source, license, capacity, tokenizer)


def _preset(model: ModelSource, license: str | None, capacity: int | None) -> Given:
    from edgeformer.nn.presets import PRESETS

    if model.preset not in PRESETS:
        raise EdgeformerError(
            f"there is no preset {model.preset!r}; known: {', '.join(PRESETS)} "
            "(`python -m edgeformer.nn.presets` shows their sizes)"
        )
    config, seed = PRESETS[model.preset], model.seed or 0
    return Given(
        config,
        config.max_positions if capacity is None else capacity,
        lambda: random_decoder(config, seed),
        None,
        (),
        {},
        Source(f"{model.preset}, random weights of seed {seed}", None, license),
        None,
    )


def _checkpoint(where: str, license: str | None, capacity: int | None, tokenizer: bool) -> Given:
    from edgeformer.nn.families.load import load_decoder, plan_decoder
    from edgeformer.nn.sources import open_source

    source = open_source(where)
    config = plan_decoder(source).config
    if capacity is None:
        capacity = min(DEFAULT_CAPACITY, config.max_positions)
    check_capacity(config, capacity)
    config = dataclasses.replace(config, max_positions=capacity)
    path = Path(where)
    return Given(
        config,
        capacity,
        lambda: load_decoder(source, capacity),
        read_words(source) if tokenizer else None,
        tuple(i for i in source.eos_token_ids if i < config.vocab_size),
        source.sampling,
        Source(
            path.resolve().name if path.exists() else where,
            source.digest(),
            license or source.license,
        ),
        None if source.kind == "edgeformer" else DEFAULT_PROMPT,
    )


def check_capacity(config: ModelConfig, capacity: int) -> None:
    """ALiBi alone has no table that could end."""
    most = config.max_positions
    if capacity < 2 or (capacity > most and config.position != "alibi"):
        raise EdgeformerError(
            f"[graph] capacity is {capacity}; it must be at least 2 and at most the model's "
            f"max_positions, {most}"
        )


def random_decoder(config: ModelConfig, seed: int) -> Decoder:
    """Untrained, and wide enough that a greedy run does not repeat one token.

    With the small weights that training starts from, a random model echoes its input: its golden
    tokens would be all the same, and a broken cache would go unseen.
    """
    decoder = Decoder(config)
    generator = torch.Generator().manual_seed(seed)
    decoder.reset_parameters(1.7 / math.sqrt(config.d_model), generator)
    return decoder.eval()


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
