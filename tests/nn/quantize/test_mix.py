"""Grids that weights already lie on, and which matrices get 8 bits in place of 4."""

import copy

import gguf
import numpy as np
import pytest
import torch
from gguf.quants import dequantize, quantize

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.quantize import Format, nearest
from edgeformer.nn.quantize.decoder import quantize_decoder
from edgeformer.nn.quantize.divergence import Divergence
from edgeformer.nn.quantize.grid import on_grid
from edgeformer.nn.quantize.mix import TABLES, mixed
from tests.nn.choices import choice_decoder, random_decoder

Q = gguf.GGMLQuantizationType
IDS = (torch.arange(160) * 7 % 96).reshape(4, 40)


def weights(outputs=40, inputs=96, seed=0):
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed))


def through(kind, w):
    return torch.from_numpy(dequantize(quantize(w.numpy(), kind), kind).astype(np.float32))


@pytest.mark.parametrize("kind", [Q.Q4_0, Q.Q4_1], ids=lambda kind: kind.name)
@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
def test_the_grid_of_dequantized_weights_is_found_again(kind, half):
    w = through(kind, weights(300))
    stored = w.half().float() if half else w
    found = on_grid(stored)
    assert (found.offsets is None) == (kind == Q.Q4_0)
    step = found.scales.abs().repeat_interleave(32, 1)
    assert ((found.dense() - w).abs() <= (0.01 if half else 1e-5) * step + 1e-7).all()


def test_eight_bits_are_found_again_bit_for_bit():
    w = through(Q.Q8_0, weights(300))
    w[3, 32:64] = 0.0
    assert torch.equal(on_grid(w, Format(8)).dense(), w)
    assert on_grid(weights(), Format(8)) is None
    one = w.clone()
    one[-1, -1] *= 1.01
    assert on_grid(one, Format(8)) is None, "one number of them all is off its grid"


def test_a_model_of_q8_0_keeps_every_number_in_n8():
    """Layers, embedding and head; no text is read for it."""
    decoder = random_decoder(ModelConfig(96, 64, 2, 4, 96, 40, tie_embeddings=False))
    for p in decoder.parameters():
        if p.dim() == 2:
            p.data = through(Q.Q8_0, p.data)
    none = torch.empty(0, 1, dtype=torch.int64)
    found = quantize_decoder(decoder, lambda name: Format(8), none, "nearest", grids=True)
    assert len(found) == 2 * 4 + 2
    for name, blocks in found.items():
        assert torch.equal(blocks.dense(), decoder.get_parameter(name)), name
    rounded = quantize_decoder(decoder, lambda name: Format(8), none, "nearest", keep=True)
    assert not torch.equal(rounded["head.weight"].dense(), decoder.head.weight)


def test_other_weights_have_none():
    assert on_grid(weights()) is None
    assert on_grid(through(Q.Q8_0, weights())) is None
    assert on_grid(through(Q.Q4_1, weights(inputs=96))[:, :80]) is None  # no whole blocks
    one = through(Q.Q4_1, weights())
    one[-1, -1] += 0.3 * (one[-1, -1] - one[-1, -2]).abs().clamp(min=0.1)
    assert on_grid(one) is None, "one number of them all is off its grid"


@pytest.mark.parametrize("value", [0.0, 1.5, -1e-40])
def test_blocks_of_one_number_have_it_as_their_offset(value):
    w = through(Q.Q4_1, weights())
    w[3, 32:64] = value
    found = on_grid(w)
    assert (found.dense()[3, 32:64] - value).abs().max() < 1e-6
    assert torch.isfinite(found.dense()).all() and (found.scales != 0).all()


def test_a_model_on_a_grid_keeps_it_to_the_last_number():
    decoder = choice_decoder("gqa")
    for name, p in decoder.named_parameters():
        if name.startswith("blocks.") and p.dim() == 2 and p.shape[1] % 32 == 0:
            p.data = through(Q.Q4_1, p.data)
    found = mixed(decoder, IDS)
    assert "on their own grid" in found.name
    for name, blocks in found.blocks.items():
        if blocks.offsets is not None:
            wanted = decoder.get_parameter(name)
            assert (blocks.dense() - wanted).abs().max() < 1e-5 * wanted.abs().max()
    assert sum(b.offsets is not None for b in found.blocks.values()) == 6


def test_blocks_have_64_inputs_where_they_come_out_even():
    decoder = random_decoder(ModelConfig(96, 64, 1, 4, 96, 40))
    found = mixed(decoder, IDS, budget=1e9)
    layers = {name: b for name, b in found.blocks.items() if name not in TABLES}
    sizes = {decoder.get_parameter(n).shape[1]: b.format.block for n, b in layers.items()}
    assert sizes == {64: 64, 96: 32}


def divergence(decoder, found):
    dense = {n: b.dense() for n, b in found.blocks.items() if n not in TABLES}
    return Divergence(decoder, IDS, 512).of(dense)


def test_less_budget_is_more_matrices_of_8_bits_and_both_are_kept_to():
    decoder = choice_decoder("gqa")
    before = copy.deepcopy(decoder.state_dict())
    every = mixed(decoder, IDS, budget=1e9)
    assert {b.format.bits for n, b in every.blocks.items() if n not in TABLES} == {4}
    assert not every.costs
    whole, large = divergence(decoder, every), []
    for share in (0.5, 0.1):
        found = mixed(decoder, IDS, budget=share * whole)
        assert divergence(decoder, found) <= share * whole
        large.append([n for n, b in found.blocks.items() if b.format.bits == 8 and n not in TABLES])
        assert f"8 bits in {len(large[-1])} of 8 matrices" in found.name
        kept = [n for n in found.costs if n not in large[-1]]
        size = {n: decoder.get_parameter(n).numel() for n in found.costs}
        dearest = min(found.costs[n] / size[n] for n in large[-1])
        assert all(found.costs[n] / size[n] <= dearest for n in kept)
    assert 0 < len(large[0]) < len(large[1]) <= 8
    assert all(torch.equal(before[n], p) for n, p in decoder.state_dict().items())


def test_nothing_is_within_no_budget_and_then_all_have_8_bits():
    found = mixed(choice_decoder("gqa"), IDS, budget=0.0)
    assert {b.format.bits for b in found.blocks.values()} == {8}
    assert found.name == "n8 b32"


def test_a_divergence_is_that_of_the_whole_decoder():
    decoder = choice_decoder("gqa")
    name = "blocks.1.ff.down.weight"
    changed = nearest(decoder.get_parameter(name), Format(4)).dense()
    like = copy.deepcopy(decoder)
    like.get_parameter(name).data = changed
    with torch.no_grad():
        p, q = (d(IDS).log_softmax(-1) for d in (decoder, like))
    wanted = float((p.exp() * (p - q)).sum(-1).mean())
    measure = Divergence(decoder, IDS, 10_000)
    assert measure.of({name: changed}) == pytest.approx(wanted, rel=1e-3)
    assert measure.of({}) == 0.0


def test_a_text_of_one_word_still_gives_a_mix():
    found = mixed(choice_decoder("gqa"), torch.full((1, 40), 3))
    assert all(torch.isfinite(b.dense()).all() for b in found.blocks.values())
