"""Offsets of blocks as more inputs: the same matrix to a small part of a step."""

import dataclasses

import pytest
import torch

from edgeformer.nn.quantize import Blocks, Format
from edgeformer.nn.quantize.offsets import MOST, NEAR, joined


def random_blocks(count, format, spread=1.0, outputs=24):
    """Offsets of `spread` steps on average, steps that differ tenfold."""
    generator = torch.Generator().manual_seed(count)
    shape = outputs, count
    values = torch.randint(0, format.most + 1, (*shape, format.block), generator=generator)
    scales = torch.rand(shape, generator=generator) * 0.09 + 0.01
    offsets = torch.randn(shape, generator=generator) * scales * spread
    zeros = torch.full(shape, format.middle, dtype=torch.uint8)
    inputs = count * format.block
    return Blocks(format, inputs, values.to(torch.uint8), scales, zeros, offsets)


def product(x, blocks):
    """What the graph computes: the means of an input's blocks stand behind it."""
    whole = joined(blocks)
    means = x.reshape(len(x), -1, blocks.format.block).mean(-1)
    return torch.cat([x, *[means] * whole.copies], 1) @ whole.blocks.dense().t()


@pytest.mark.parametrize("count", [1, 2, 7, 18, 32, 48, 64])
@pytest.mark.parametrize("format", [Format(4), Format(4, 16), Format(8, 64)])
@pytest.mark.parametrize("spread", [0.3, 8.0, 100.0])
def test_the_product_is_that_of_the_matrix(count, format, spread):
    blocks = random_blocks(count, format, spread)
    x = torch.randn(5, blocks.inputs, generator=torch.Generator().manual_seed(1))
    sums = x.reshape(5, count, format.block).sum(-1).abs().sum(1, keepdim=True)
    allowed = sums * blocks.scales.mean(1) * NEAR  # [5, outputs]
    wrong = (product(x, blocks) - x @ blocks.dense().t()).abs()
    assert (wrong <= allowed + 1e-3).all()
    without = x @ dataclasses.replace(blocks, offsets=None).dense().t()
    assert (x @ blocks.dense().t() - without).norm() > 8 * wrong.norm()


def test_it_is_as_many_bits_and_whole_blocks():
    blocks = random_blocks(18, Format(4))
    whole = joined(blocks)
    assert whole.copies == 3 and whole.blocks.inputs == 18 * 32 + 3 * 18
    assert whole.blocks.format.bits == 4 and not whole.blocks.format.symmetric
    assert whole.blocks.values.shape == (24, 20, 32) and whole.blocks.values.max() <= 15
    assert torch.equal(whole.blocks.values[:, :18], blocks.values)
    assert torch.equal(whole.blocks.scales[:, :18], blocks.scales)
    packed = whole.blocks.packed()
    assert packed["B"].shape == (24, 20, 16) and packed["zero_points"].shape == (24 * 10,)


def test_a_row_with_one_large_offset_gets_more_digits():
    plain = random_blocks(32, Format(4))
    odd = random_blocks(32, Format(4))
    odd.offsets[3, 5] = 1e4
    count = [joined(blocks).blocks.values.shape[1] for blocks in (plain, odd)]
    assert count == [32 + 2, 32 + MOST]


def test_blocks_without_a_step_keep_their_number():
    blocks = random_blocks(18, Format(4))
    blocks.scales[:, 4] = 0.0  # as Q4_1 stores 32 equal numbers
    x = torch.ones(1, blocks.inputs)
    wrong = (product(x, blocks) - x @ blocks.dense().t()).abs()
    assert torch.isfinite(wrong).all() and wrong.max() < 0.2
