"""Matrices that a GGUF stores in blocks of 8 or 4 bits, taken over without rounding them again."""

from __future__ import annotations

import torch

from edgeformer.nn.families.load import Plan
from edgeformer.nn.quantize.blocks import Blocks, Format
from edgeformer.nn.sources.gguf import GgufSource
from edgeformer.nn.sources.source import Source

BLOCK = 32  # of all types that are taken over


def stored_blocks(source: Source, plan: Plan) -> dict[str, Blocks]:
    """By parameter name, those whose every piece is stored as Q8_0, Q4_0 or Q4_1, all alike.

    The blocks stand for the very numbers that the checkpoint's dequantized weights are: for Q8_0
    and Q4_0 bit for bit, for Q4_1 to the rounding of one float32 sum.
    """
    found = {}
    if isinstance(source, GgufSource):
        for name, shape in plan.shapes.items():
            if len(shape) == 2 and shape[1] % BLOCK == 0:
                blocks = _blocks(source, plan, name)
                if blocks is not None:
                    found[name] = blocks
    return found


def _blocks(source: GgufSource, plan: Plan, name: str) -> Blocks | None:
    kinds = set()
    pieces: list[tuple[torch.Tensor, ...]] = []
    for piece in plan.recipes[name]:
        grids = [source.grid(tensor) for tensor in piece.names]
        if not grids or None in grids:
            return None
        kinds |= {source.stored(tensor).precision for tensor in piece.names}
        parts = zip(*grids, strict=True)
        pieces.append(tuple(p[0] if piece.make is None else piece.make(*p) for p in parts))
    if len(kinds) > 1:
        return None  # a matrix has one number of bits
    values, scales, offsets = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    values, scales, offsets = (_split(part) for part in (values, scales, offsets))
    if not (_one_number(scales) and _one_number(offsets)):
        return None  # turned round: its blocks lie along the outputs
    format = Format(8 if kinds == {"Q8_0"} else 4, BLOCK)
    scales, offsets = scales[..., 0].contiguous(), offsets[..., 0].contiguous()
    return Blocks(
        format,
        plan.shapes[name][1],
        (values + format.middle).to(torch.uint8),
        scales,
        torch.full(scales.shape, format.middle, dtype=torch.uint8),
        offsets if kinds == {"Q4_1"} else None,
    )


def _split(part: torch.Tensor) -> torch.Tensor:
    return part.reshape(len(part), -1, BLOCK)  # [outputs, blocks, 32]


def _one_number(part: torch.Tensor) -> bool:
    return bool((part == part[..., :1]).all())
