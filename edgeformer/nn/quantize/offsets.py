"""Offsets of blocks, as in Q4_1, as a few more inputs of the same matrix.

MatMulNBits knows scale * (value - zero) with a whole zero. A number that is added to all weights of
a block adds itself times the sum of the block's inputs. The nearest whole zero takes over most of
it. What is left are the weights of more inputs, the means of the blocks, in digits of as many bits
as the matrix has: one product computes all. A product of float32 beside it cost 8 % of a step
(docs/cpu.md).
"""

from __future__ import annotations

import dataclasses
import itertools

import torch

from edgeformer.nn.quantize.blocks import Blocks, Format

LEAST, MOST = 2, 4  # digits of an offset
NEAR = 1 / 16  # of a row's mean step: how far an offset may be off where more digits can help


@dataclasses.dataclass(frozen=True)
class Joined:
    """`blocks` are [outputs, inputs + copies * means], without offsets. Behind the inputs stand
    the means of their blocks, all of them `copies` times."""

    blocks: Blocks
    copies: int


def joined(blocks: Blocks) -> Joined:
    """The same matrix, to a small part of a step, for inputs behind which their means stand.

    The inputs must be whole blocks.
    """
    outputs, count, block = blocks.values.shape
    scales, middle = blocks.scales, blocks.zeros.float()
    whole = torch.where(scales == 0, torch.zeros_like(scales), blocks.offsets / scales).round()
    zeros = (middle - whole).clamp(0, blocks.format.most)
    left = (blocks.offsets + scales * (zeros - middle)).double()  # [outputs, blocks]
    digits = _digits(left * block, blocks.format, scales.abs().mean(1) * (NEAR * block))
    # A block has one scale, so that each digit begins a new one.
    starts = [0]
    for _ in digits[1:]:
        starts.append(-(-(starts[-1] + count) // block) * block)
    copies = -(-(starts[-1] + count) // count)
    added = -(-copies * count // block)
    values = torch.full((outputs, added * block), blocks.format.middle, dtype=torch.uint8)
    sizes = torch.ones(outputs, added)
    ends = [*starts[1:], added * block]
    for (digit, size), start, end in zip(digits, starts, ends, strict=True):
        columns = torch.arange(start, start + count)
        values[:, columns] = (digit[:, columns % count] + blocks.format.middle).to(torch.uint8)
        sizes[:, start // block : end // block] = size.float()
    made = Blocks(
        dataclasses.replace(blocks.format, symmetric=False),
        blocks.inputs + copies * count,
        torch.cat([blocks.values, values.reshape(outputs, added, block)], 1),
        torch.cat([scales, sizes], 1).contiguous(),
        torch.cat([zeros, torch.full_like(sizes, blocks.format.middle)], 1).to(torch.uint8),
    )
    return Joined(made, copies)


def _digits(
    left: torch.Tensor, format: Format, near: torch.Tensor
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of numbers [outputs, blocks]: whole ones of `format`'s bits and their size [outputs, 1],
    each pair for what the ones before leave. `near` [outputs] is enough."""
    most = format.middle - 1
    size = left.abs().amax(1, keepdim=True) / most
    size = torch.where(size > 0, size, torch.ones_like(size))
    found = []
    for number in itertools.count(1):
        digit = (left / size).round().clamp(-most, most)
        found.append((digit, size))
        left = left - digit * size
        if number == MOST or (number >= LEAST and bool((left.abs().amax(1) <= near).all())):
            return found
        size = size / (2 * most)  # half a step to either side is left
