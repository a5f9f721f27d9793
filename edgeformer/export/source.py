"""The decoder that a recipe names, with its tokenizer and where they came from."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.export.recipe import ModelSource
from edgeformer.nn.checkpoint import TOKENIZER_FILE, WEIGHTS_FILE, load_checkpoint
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder


@dataclass(frozen=True)
class Source:
    """Where a decoder came from, as the manifest says it."""

    checkpoint: str
    sha256: str | None = None
    license: str | None = None


def load_source(model: ModelSource, license: str | None) -> tuple[Decoder, str | None, Source]:
    """Decoder, text of its tokenizer.json or None, and what the manifest says of both."""
    if model.preset is not None:
        from edgeformer.nn.presets import PRESETS

        if model.preset not in PRESETS:
            raise EdgeformerError(
                f"there is no preset {model.preset!r}; known: {', '.join(PRESETS)} "
                "(`python -m edgeformer.nn.presets` shows their sizes)"
            )
        seed = 0 if model.seed is None else model.seed
        decoder = random_decoder(PRESETS[model.preset], seed)
        return (
            decoder,
            None,
            Source(f"{model.preset}, random weights of seed {seed}", None, license),
        )
    folder = Path(model.checkpoint)
    decoder = load_checkpoint(folder)
    source = Source(folder.resolve().name, sha256(folder / WEIGHTS_FILE), license)
    return decoder, _read_tokenizer(folder / TOKENIZER_FILE), source


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


def _read_tokenizer(path: Path) -> str | None:
    if not path.exists():
        return None
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EdgeformerError(f"cannot read `{path}`: {error}") from error
