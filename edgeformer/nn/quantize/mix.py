"""4 bits where the model bears them and 8 where it does not, to a budget of KL.

Weights that lie on a grid of 4 bits already keep it (see `grid`). All others are rounded by GPTQ;
if that costs too much, the matrices that cost most for what they save get 8 bits.

Blocks have 64 inputs: a trained 5M preset had a KL of 0.0008 in 3.6 MB, with blocks of 32 0.0006 in
3.9 MB, and llama.cpp's Q4_K_M 0.0010 in 3.5 MB (benchmarks/quantization).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.blocks import Blocks, Format
from edgeformer.nn.quantize.decoder import quantize_decoder
from edgeformer.nn.quantize.divergence import Divergence
from edgeformer.nn.quantize.search import nearest

BUDGET = 0.03  # nats of KL on the calibration text, of all matrices in 4 bits together
TOKENS = 512  # of it, on which that is measured
TABLES = ("embedding.weight", "head.weight")
TABLE = LARGE = Format(8)


@dataclass(frozen=True)
class Mix:
    """Blocks by parameter name. `costs`: KL of each matrix alone in 4 bits, where it was asked."""

    blocks: dict[str, Blocks]
    costs: dict[str, float]

    @property
    def name(self) -> str:
        """As in `n4 b32, 8 bits in 7 of 120 matrices, 30 on their own grid`."""
        layers = {n: b for n, b in self.blocks.items() if n not in TABLES}
        large = sum(b.format.bits == 8 for b in layers.values())
        own = sum(b.offsets is not None for b in layers.values())
        small = sorted({b.format.name for b in layers.values() if b.format.bits == 4})
        parts = [" and ".join(small) or "n8 b32"]
        if large and small:
            parts.append(f"8 bits in {large} of {len(layers)} matrices")
        if own:
            parts.append(f"{own} of {len(layers)} on their own grid")
        return ", ".join(parts)


def mixed(
    decoder: Decoder,
    ids: torch.Tensor,
    small: Format | None = None,
    budget: float = BUDGET,
    progress: Callable[[str], None] = lambda name: None,
    grids: bool = True,
) -> Mix:
    """Quantize all matrices; the decoder is left as it is. ids: the calibration text, int64
    [sequences, length]. Embedding and head have 8 bits. `small`: None is 4 bits in blocks of 64
    inputs, or of 32 where those would not come out even. Without `grids` weights that lie on one
    are rounded like all others."""

    def choose(name: str) -> Format:
        if name in TABLES:
            return TABLE
        return small or Format(4, 32 if decoder.get_parameter(name).shape[1] % 64 else 64)

    blocks = quantize_decoder(decoder, choose, ids, "gptq", progress, keep=True, grids=grids)
    dense = {n: b.dense() for n, b in blocks.items() if n not in TABLES}
    progress("all matrices together")
    measure = Divergence(decoder, ids, TOKENS)
    if measure.of(dense) <= budget:
        return Mix(blocks, {})
    costs = {}
    for name, weight in dense.items():
        progress(f"{name} alone")
        costs[name] = measure.of({name: weight})
    order = sorted(costs, key=lambda name: -costs[name] / dense[name].numel())
    large = {name: nearest(decoder.get_parameter(name), LARGE) for name in order}
    fewest, enough = 0, len(order)  # with as many of the first in 8 bits it is not, and is, enough
    while enough - fewest > 1:
        middle = (fewest + enough) // 2
        progress(f"with {middle} matrices of 8 bits")
        first = {name: large[name].dense() for name in order[:middle]}
        if measure.of({**dense, **first}) <= budget:
            enough = middle
        else:
            fewest = middle
    return Mix(blocks | {name: large[name] for name in order[:enough]}, costs)
