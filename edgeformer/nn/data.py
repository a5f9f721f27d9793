"""Text into windows of tokens. Which windows a step sees depends on the seed and the step only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from edgeformer.errors import EdgeformerError


def read_text(path: Path) -> str:
    """A text file as it is, line ends included."""
    if path.exists() and not path.is_file():  # a pipe can be read once, and may never end
        raise EdgeformerError(f"cannot read the text: `{path}` is no regular file")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise EdgeformerError(f"cannot read the text: {error}") from error
    if b"\0" in raw:
        raise EdgeformerError(
            f"`{path}` is a binary file: byte 0 at offset {raw.index(0)}; give a text file"
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EdgeformerError(
            f"`{path}` is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}; "
            "convert it first, for example with iconv -t UTF-8"
        ) from error
    if not text.strip():
        raise EdgeformerError(f"`{path}` is empty: {len(text)} characters; give another text")
    return text


def split_text(text: str, share: float) -> tuple[str, str]:
    """(training, held out): the end of the text, from the first line break after the cut on."""
    if share == 0.0:
        return text, ""
    cut = len(text) - round(share * len(text))
    line = text.find("\n", cut)
    cut = line + 1 if 0 <= line < len(text) - 1 else cut
    return text[:cut], text[cut:]


@dataclass(frozen=True)
class Windows:
    """The training tokens, cut anew in every epoch: each token is predicted about once an epoch.

    An epoch is a shift of the cut and an order of the windows; both are drawn from (seed, epoch).
    """

    ids: torch.Tensor  # int64 [tokens]
    sequence: int
    batch_size: int
    seed: int

    def __post_init__(self) -> None:
        if len(self.ids) < self.sequence + 1:
            raise EdgeformerError(
                f"the text has {len(self.ids)} tokens to train on, but a sequence of "
                f"{self.sequence} needs {self.sequence + 1}; give more text or "
                f"--sequence {max(1, len(self.ids) - 1)}"
            )

    @property
    def per_epoch(self) -> int:
        """Windows in an epoch. Room is left for the shift where the text has it."""
        return max(1, (len(self.ids) - self.sequence) // self.sequence)

    def starts(self, epoch: int) -> torch.Tensor:
        """First token of each window of an epoch, in the order of training; int64 [per_epoch]."""
        generator = torch.Generator().manual_seed(mixed(self.seed, 2 * epoch))
        spare = len(self.ids) - 1 - self.per_epoch * self.sequence
        shift = torch.randint(min(self.sequence, spare + 1), (), generator=generator)
        return torch.randperm(self.per_epoch, generator=generator) * self.sequence + shift

    def batch(self, step: int) -> torch.Tensor:
        """Tokens of one step, int64 [batch_size, sequence + 1]: inputs, and targets one later."""
        first = step * self.batch_size
        order: dict[int, torch.Tensor] = {}
        rows = []
        for i in range(first, first + self.batch_size):
            epoch, place = divmod(i, self.per_epoch)
            if epoch not in order:
                order[epoch] = self.starts(epoch)
            start = int(order[epoch][place])
            rows.append(self.ids[start : start + self.sequence + 1])
        return torch.stack(rows)


def mixed(seed: int, stream: int) -> int:
    """A seed for one stream of a run; neighbours look unrelated (splitmix64's finalizer)."""
    mask = 2**64 - 1
    z = (seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03 + 1) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
