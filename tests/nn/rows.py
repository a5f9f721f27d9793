"""A cache for `CachedStep` that puts rows anywhere: the step must find them by their position."""

import torch

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.step import CachedStep

GARBAGE = 3.0  # what empty rows hold: finite, as in a runtime that does not clear what it drops


class Rows:
    """Cached rows at shuffled places among rows of garbage; runs either graph's module."""

    def __init__(self, decoder: Decoder, capacity: int, seed: int = 0) -> None:
        c = decoder.config
        self.generator = torch.Generator().manual_seed(seed)
        self.many, self.one = CachedStep(decoder), CachedStep(decoder, one=True)
        self.positions = torch.full((capacity,), -1, dtype=torch.int32)
        dtype = decoder.dtype
        self.past = [
            (torch.randn(capacity, c.kv_width, generator=self.generator) * GARBAGE).to(dtype)
            for _ in range(2 * c.n_layers)
        ]
        self.places = torch.randperm(capacity, generator=self.generator).tolist()

    def step(self, ids: list[int], positions: list[int], rows: list[int]) -> torch.Tensor:
        """Logits [R, vocab]; new rows of real tokens are kept."""
        heads = (_int32(ids), _int32(positions), self.positions)
        logits, *new = self.many(*heads, _int32(rows), *self.past)
        self._keep(positions, new)
        return logits

    def step_one(self, token_id: int, position: int) -> torch.Tensor:
        """The same for T = R = 1, through the module of decode.onnx; [1, vocab]."""
        logits, *new = self.one(_int32([token_id]), _int32([position]), self.positions, *self.past)
        self._keep([position], new)
        return logits

    def truncate(self, length: int) -> None:
        """Forget every row at `length` or later, as a backend does."""
        gone = (self.positions >= length).nonzero().flatten().tolist()
        self.positions[gone] = -1
        self.places += gone

    def _keep(self, positions: list[int], new: list[torch.Tensor]) -> None:
        for t, position in enumerate(positions):
            if position >= 0:
                place = self.places.pop()
                self.positions[place] = position
                for past, rows in zip(self.past, new, strict=True):
                    past[place] = rows[t]


def _int32(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)
