"""Weights that were quantized before: blocks whose numbers already lie on a grid of 4 or 8 bits.

Dequantized GGUF, GPTQ or AWQ weights look like any others. To round them anew, to other grids,
loses as much again as the first rounding did; to find their own loses nothing.
"""

from __future__ import annotations

import torch

from edgeformer.nn.quantize.blocks import Blocks, Format, in_blocks

FORMAT = Format(4)
EXACT = 2e-3  # of a step: half precision and sums of it leave a thousandth
ROWS = 4096  # outputs that are looked at in one go


def on_grid(weight: torch.Tensor, format: Format = FORMAT) -> Blocks | None:
    """The blocks of a matrix of which every number is offset + step * (0 to 15), or None.

    With 8 bits every number must be step * (-127 to 127), the largest of a block one of the ends:
    Q8_0, whose values come out bit for bit.

    Offsets are left out (None) where every one is a whole number of steps that a symmetric block
    has, as in Q4_0.
    """
    look = _steps if format.bits == 4 else _symmetric_steps
    if weight.shape[1] % format.block or look(in_blocks(weight[:1], format.block), format) is None:
        return None  # nearly always: at once
    parts = []
    for rows in weight.split(ROWS):
        found = look(in_blocks(rows, format.block), format)
        if found is None:
            return None
        parts.append(found)
    steps, scales, lowest = (torch.cat(part) for part in zip(*parts, strict=True))
    zeros = torch.full(scales.shape, format.middle, dtype=torch.uint8)
    if format.bits == 8:
        return Blocks(
            format, weight.shape[1], (steps + format.middle).to(torch.uint8), scales, zeros
        )
    whole = lowest / scales  # where a block begins, in steps
    shift = whole.round()
    most = steps.amax(-1)
    # a symmetric block has one step more below zero; if it is needed above, the scale is negative
    turned = shift + most > format.middle - 1
    begin = torch.where(turned, -(shift + most), shift)
    fits = (begin >= -format.middle) & (begin + most <= format.middle - 1)
    plain = bool((fits & ((whole - shift).abs() < EXACT * format.most)).all())
    if plain:
        steps = torch.where(turned[..., None], most[..., None] - steps, steps)
        scales, shift = torch.where(turned, -scales, scales), begin
        values, offsets = steps + shift[..., None] + format.middle, None
    else:
        values, offsets = steps, lowest + format.middle * scales
    return Blocks(format, weight.shape[1], values.to(torch.uint8), scales, zeros, offsets)


def _steps(
    parts: torch.Tensor, format: Format
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Of [outputs, blocks, block]: whole steps from 0, their size and the lowest number of each
    block; None if any block has no such grid."""
    low, high = parts.amin(-1), parts.amax(-1)
    steps, scales = torch.zeros_like(parts), torch.ones_like(low)
    open_ = high > low  # blocks of one number are done: no steps
    for most in range(format.most, format.most // 2, -1):  # the others are parts of these
        if not open_.any():
            break
        some = parts[open_]  # [open blocks, block]
        size = (high - low)[open_] / most
        exact = (some - low[open_][:, None]) / size[:, None]
        near = exact.round()
        fits = ((exact - near).abs() < EXACT * most**0.5).all(-1)
        index = open_.nonzero()[fits]
        place = index[:, 0], index[:, 1]
        steps[place], scales[place] = near[fits], size[fits]
        open_[place] = False
    if open_.any():
        return None
    apart = _common(steps)
    return steps / apart[..., None], scales * apart, low


def _symmetric_steps(
    parts: torch.Tensor, format: Format
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Of [outputs, blocks, block]: whole steps from -127 to 127, their size, zeros."""
    most = parts.abs().amax(-1)
    scales = torch.where(most > 0, most / (format.middle - 1), torch.ones_like(most))
    exact = parts / scales[..., None]
    steps = exact.round()
    if not ((exact - steps).abs() < EXACT).all():
        return None
    return steps, scales, torch.zeros_like(most)


def _common(steps: torch.Tensor) -> torch.Tensor:
    """The greatest common divisor of each block's steps, at least 1: the coarsest grid."""
    whole = steps.to(torch.int16)
    common = whole[..., 0]
    for i in range(1, whole.shape[-1]):
        common = torch.gcd(common, whole[..., i])
    return common.clamp(min=1).float()
