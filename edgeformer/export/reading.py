"""What a model is measured on: windows of held-out text, and other text to calibrate with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.export.quality import LEAST_TOKENS, WINDOW, windows_of
from edgeformer.manifest_quality import EvalText
from edgeformer.nn.data import read_text
from edgeformer.nn.decoder import Decoder
from edgeformer.text import Tokenizer

# The held-out text of the demo model, where this runs in the repository.
SAMPLE = Path(__file__).parents[2] / "export" / "models" / "nano-austen" / "held_out.txt"
TOKENS = 4096  # that are measured
CALIBRATION = 4096  # tokens to calibrate with
MOST_LETTERS = 64  # characters of a text that are read for each token that is wanted
OWN_WINDOW, OWN_TOKENS = 32, 128  # of a text that the model writes itself: each costs a pass


@dataclass(frozen=True)
class Reading:
    """`text` is None where the model wrote its own. Windows hold ids; all begin empty."""

    text: EvalText | None
    windows: list[list[int]]
    calibration: torch.Tensor  # int64 [sequences, length]


@dataclass(frozen=True)
class Texts:
    """Which texts a user wants; None: the shipped sample."""

    measured: Path | None = None
    calibration: Path | None = None
    tokens: int = TOKENS


def read_texts(
    texts: Texts, tokenizer: Tokenizer, positions: int, calibrate: bool = True
) -> Reading:
    """Windows of min(256, positions) tokens; nothing to calibrate with unless that is wanted.

    Calibration never sees what is measured: it reads a text of its own, or the sample (behind the
    measured part, where both are one text). Raises EdgeformerError where a text cannot be
    read, or is too short to calibrate with.
    """
    if texts.tokens < LEAST_TOKENS:
        raise EdgeformerError(
            f"there are {texts.tokens} tokens to measure on, at least {LEAST_TOKENS} are needed"
        )
    window = min(WINDOW, positions)
    path = texts.measured or _sample()
    text = read_text(path)
    ids = _ids(path, text, tokenizer, texts.tokens + CALIBRATION)
    windows = windows_of(ids, window, texts.tokens)
    measured = EvalText(path.name, hashlib.sha256(text.encode()).hexdigest())
    if not calibrate:
        return Reading(measured, windows, torch.empty(0, window, dtype=torch.int64))
    other = texts.calibration or _sample()
    calibration = read_text(other)
    if calibration == text:
        rest = ids[sum(map(len, windows)) :]
    else:
        rest = _ids(other, calibration, tokenizer, CALIBRATION)
    return Reading(measured, windows, _sequences(rest, window))


def own_text(decoder: Decoder, longest: int | None = None, seed: int = 0) -> Reading:
    """What the model writes at temperature 1, half to measure and half to calibrate with, in
    windows of at most `longest` tokens."""
    length = min(OWN_WINDOW, longest or decoder.config.max_positions)
    count = 2 * -(-OWN_TOKENS // length)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(decoder.config.vocab_size, (count, 1), generator=generator)
    with torch.inference_mode():
        for _ in range(length - 1):
            odds = decoder(ids)[:, -1].softmax(-1)  # [count, vocab]
            ids = torch.cat([ids, torch.multinomial(odds, 1, generator=generator)], 1)
    half = count // 2
    return Reading(None, ids[:half].tolist(), ids[half:].clone())


def _sample() -> Path:
    if not SAMPLE.is_file():
        raise EdgeformerError(
            "the sample text is only in edgeformer's repository, not in an installed package; give "
            "a text in the model's language that it was not trained on: --eval-text FILE (and "
            "--calibration-text FILE to calibrate with)"
        )
    return SAMPLE


def _ids(path: Path, text: str, tokenizer: Tokenizer, most: int) -> list[int]:
    try:
        return tokenizer.encode(text[: most * MOST_LETTERS])[:most]
    except EdgeformerError as error:
        raise EdgeformerError(
            f"`{path}`: {error}; give another text: --eval-text FILE, --calibration-text FILE"
        ) from error


def _sequences(ids: Sequence[int], length: int) -> torch.Tensor:
    if len(ids) < length:
        raise EdgeformerError(
            f"there are {len(ids)} tokens of text to calibrate with, at least {length} are needed; "
            "give a longer one: --calibration-text FILE"
        )
    whole = len(ids) // length
    return torch.tensor(list(ids[: whole * length])).reshape(whole, length)
