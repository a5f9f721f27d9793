"""Which parts of a model FP16 cannot hold: a real text runs through it, block after block.

Random inputs understate what happens: single channels of a trained model grow to tens of thousands
at some tokens. Beside float32, each block is computed as an FP16 engine does (`half.py`). A part
that leaves FP16's range there is pinned to FP32, and its block computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from edgeformer.errors import CheckFailed
from edgeformer.export.half import LARGEST, TooLarge, lost, rounded
from edgeformer.export.quality import Quality, compare
from edgeformer.manifest_quality import Pin
from edgeformer.nn.blockwise import embedded, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Attention, Block, FeedForward, Linear, Norm
from edgeformer.nn.pins import STREAM, float32_modules, half_copy

HEADROOM = 2.0  # other texts than ours may give larger numbers
MOST_ERROR = 0.02  # of the residual stream; rounding alone gives 2e-3 in a model of 30 layers
GROWTH = 1.5  # what a block may make of an error that is there already
AT_ONCE = 512  # tokens of a forward pass
PIECE = 32  # tokens whose logits are in memory at once
ADVICE = "export it in fp32 and build FP32 engines; nothing was written"

T = TypeVar("T")


@dataclass(frozen=True)
class Audited:
    """pins: paths in the decoder, or STREAM. quality: None without windows."""

    pins: tuple[Pin, ...]
    quality: Quality | None


@dataclass
class _Part:
    """Windows of one length: their ids, and what has become of them up to some block."""

    ids: torch.Tensor  # [windows, length]
    exact: torch.Tensor  # float32 [windows * length, d_model]
    half: torch.Tensor  # the same in half precision, or float32 where the stream is pinned

    @property
    def length(self) -> int:
        return self.ids.shape[1]


class Unfit(CheckFailed):
    """Even with parts in FP32, FP16 cannot hold this model."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; {ADVICE}")
        self.reason = reason


class _StreamPinned(Exception):
    """All must be computed again."""


@torch.inference_mode()
def audit(
    decoder: Decoder,
    windows: Sequence[Sequence[int]],
    also: Sequence[Sequence[int]] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> Audited:
    """Pins, and what half precision with these pins costs on the windows.

    `also`: texts that must come through, but are not measured. Raises Unfit where even float32
    parts would not help, and EdgeformerError where the windows are too few to measure on.
    """
    found = _Audit(decoder, progress)
    while True:
        try:
            return found.run(windows, also)
        except _StreamPinned:
            progress("again, with an FP32 residual stream")


class _Audit:
    def __init__(self, decoder: Decoder, progress: Callable[[str], None]) -> None:
        self.decoder, self.progress = decoder, progress
        self.pins: dict[str, str] = {}
        for name, weight in decoder.named_parameters():
            path, _, kind = name.rpartition(".")
            # what is added to larger numbers may be small
            factor = kind == "weight" and not getattr(
                decoder.get_submodule(path), "plus_one", False
            )
            if why := lost(weight, factor):
                self._pin(path, name, why)

        self.error = 0.0  # of the residual stream behind the last block

    def run(self, windows: Sequence[Sequence[int]], also: Sequence[Sequence[int]]) -> Audited:
        parts = self._embedded([*windows, *also])
        self.error = self._error(-1, [part.half for part in parts], parts)
        for i, block in enumerate(self.decoder.blocks):
            self.progress(f"layer {i + 1} of {len(self.decoder.blocks)}")
            for part in parts:
                part.exact = run_block(self.decoder, i, block, part.exact, part.length)
            self._until_it_is_near(i, parts)
        self.progress("logits")
        head = "embedding" if self.decoder.config.tie_embeddings else "head"
        quality = self._until_it_fits(lambda: self._measured(parts, windows, also), head)
        return Audited(tuple(Pin(*item) for item in self.pins.items()), quality)

    def _embedded(self, windows: Sequence[Sequence[int]]) -> list[_Part]:
        parts = [
            _Part(ids, embedded(self.decoder, ids)[0], torch.empty(0)) for ids in _batches(windows)
        ]

        def half() -> list[torch.Tensor]:
            ends = self._half_ends()
            with self._watched(ends, ""):
                return [embedded(ends, part.ids)[0] for part in parts]

        for part, value in zip(parts, self._until_it_fits(half, STREAM), strict=True):
            part.half = value
        return parts

    def _until_it_is_near(self, i: int, parts: list[_Part]) -> None:
        """Block i in half precision, with one part more in FP32 as long as it loses too much."""

        def compute() -> list[torch.Tensor]:
            return self._until_it_fits(lambda: self._half_block(i, parts), STREAM)

        halves = compute()
        while (error := self._error(i, halves, parts)) > max(MOST_ERROR, GROWTH * self.error):
            path = self._helpful(i, parts, error / 2)
            if not path:
                break
            self._pin(path, path, f"results that are off by {error:.1%} for the next norm")
            halves = compute()
        self.error = error
        for part, value in zip(parts, halves, strict=True):
            part.half = value

    def _helpful(self, i: int, parts: list[_Part], enough: float) -> str:
        """The part of block i to pin so that its error gets small enough, or ""."""
        block = self.decoder.blocks[i]
        for kinds in ((Linear, Norm), (Attention, FeedForward)):
            errors = []
            for name, module in block.named_modules(prefix=f"blocks.{i}"):
                if isinstance(module, kinds) and not self._is_pinned(name):
                    with suppress(TooLarge):
                        halves = self._half_block(i, parts, name)
                        errors.append((self._error(i, halves, parts), name))
            best, name = min(errors, default=(math.inf, ""))
            if best <= enough:
                return name
        # what it loses was lost before, in sums of large numbers
        return "" if STREAM in self.pins else STREAM

    def _error(self, i: int, halves: list[torch.Tensor], parts: list[_Part]) -> float:
        """How far the stream behind block i is from float32's, over all tokens, as a share of it.

        As the next norm sees it: a channel of 10000 would hide the loss of all others.
        """
        c, last = self.decoder.config, i + 1 == self.decoder.config.n_layers
        norm: nn.Module = nn.Identity()
        if last and c.final_norm:
            norm = self.decoder.final_norm
        elif not last and (c.parallel != "none" or c.norm_placement in ("pre", "sandwich")):
            norm = self.decoder.blocks[i + 1].attention_norm
        shares = []
        for half, part in zip(halves, parts, strict=True):
            exact = norm(part.exact)
            away = (norm(half.float()) - exact).square().sum(-1)
            shares.append(away / exact.square().sum(-1).clamp(min=1e-30))  # [tokens]
        return float(torch.cat(shares).mean().sqrt())

    def _half_block(self, i: int, parts: list[_Part], *more: str) -> list[torch.Tensor]:
        path = f"blocks.{i}"
        block = half_copy(self.decoder.blocks[i], [*self.pins, *more], path)
        with self._watched(block, path):
            return [
                run_block(self.decoder, i, block, part.half, part.length, torch.float16)
                for part in parts
            ]

    def _half_ends(self) -> Decoder:
        """All but the blocks."""
        return half_copy(self.decoder, self.pins, instead={self.decoder.blocks: nn.ModuleList()})

    def _measured(
        self, parts: list[_Part], windows: Sequence[Sequence[int]], also: Sequence[Sequence[int]]
    ) -> Quality | None:
        ends, states = self._half_ends(), {}
        for part in parts:
            length = part.length
            for n, ids in enumerate(part.ids.tolist()):
                rows = slice(n * length, (n + 1) * length)
                states[tuple(ids)] = part.exact[rows], part.half[rows]
        # by the identity of a piece: the same words may stand behind others
        pieces = [
            [piece for w in group for piece in _pieces(w, states)] for group in (windows, also)
        ]
        known = {id(ids): (exact, half) for group in pieces for ids, exact, half in group}

        def candidate(ids: Sequence[int]) -> np.ndarray:
            with self._watched(ends, ""):
                return ends.logits(known[id(ids)][1]).numpy()

        def reference(ids: Sequence[int]) -> np.ndarray:
            return self.decoder.logits(known[id(ids)][0]).numpy()

        for ids, _, _ in pieces[1]:
            candidate(ids)
        return compare(reference, candidate, [ids for ids, _, _ in pieces[0]]) if windows else None

    def _watched(self, module: nn.Module, path: str) -> AbstractContextManager[None]:
        return rounded(module, path, LARGEST / HEADROOM)

    def _until_it_fits(self, compute: Callable[[], T], between: str) -> T:
        """Compute again with one part more in FP32, as long as something is too large.

        `between`: what to pin for numbers that no module computes.
        """
        while True:
            try:
                return compute()
            except TooLarge as found:
                module = self.decoder.get_submodule(found.module)
                path = found.module
                if isinstance(module, FeedForward):  # its activation
                    path += ".down"
                elif isinstance(module, (Block, Decoder)):
                    path = between
                self._pin(path, f"{found.module or 'the decoder'} (in {found.operator})", found.why)

    def _pin(self, path: str, where: str, why: str) -> None:
        if not path or self._is_pinned(path):
            reason = f"{where} has {why}, and keeping it in FP32 does not help"
            if path.endswith("attention"):
                reason = f"{where} has {why}: a key or value, for which the cache of FP16 is"
            raise Unfit(reason)
        inside = [other for other in self.pins if other.startswith(path + ".")]
        self.pins = {name: text for name, text in self.pins.items() if name not in inside}
        self.pins[path] = why
        if path == STREAM:
            raise _StreamPinned

    def _is_pinned(self, path: str) -> bool:
        """Whether all that a pin of it could change is FP32 already."""
        if path == STREAM:
            return STREAM in self.pins
        wide = float32_modules(self.decoder, self.pins)
        return all(name in wide for name in float32_modules(self.decoder, [path]))


def _pieces(
    ids: Sequence[int], states: dict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor]]
) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
    """A window in pieces, ids and both states: all its logits at once would be a large matrix.

    Each piece begins with the token that the one before it ended with, which predicts the next.
    """
    exact, half = states[tuple(ids)]
    for start in range(0, max(1, len(ids) - 1), PIECE):
        rows = slice(start, start + PIECE + 1)
        yield list(ids[rows]), exact[rows], half[rows]


def _batches(windows: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
    """Windows of equal length side by side, [windows, length]."""
    lengths: dict[int, list[list[int]]] = {}
    for ids in windows:
        lengths.setdefault(len(ids), []).append(list(ids))
    for length, group in lengths.items():
        yield from torch.tensor(group).split(max(1, AT_ONCE // length))
