"""Half precision with exceptions: which weights are cast, and what the step then computes."""

import copy

import pytest
import torch

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.pins import STREAM, float32_modules, half_copy, to_half
from tests.nn.choices import CHOICES, choice_decoder, random_decoder
from tests.nn.rows import Rows

pytestmark = pytest.mark.usefixtures("without_gradients")
PINS = {
    "gqa": ("blocks.1.ff.down", "blocks.0.attention"),
    "like-gemma": (STREAM, "blocks.2.attention", "blocks.0.ff_post_norm"),
    "like-phi": (STREAM, "head", "blocks.1.attention.qkv"),
    "norm-post": (STREAM, "blocks.0.ff.up"),
    "alibi-gqa": ("blocks.0.attention.out", "blocks.0.attention.qkv"),
    "tied": ("embedding", "final_norm"),
}


@pytest.mark.parametrize("name", PINS)
def test_only_what_is_not_pinned_is_cast_and_takes_memory(name):
    decoder = choice_decoder(name)
    typed = half_copy(decoder, PINS[name])
    wide = float32_modules(decoder, PINS[name])
    for (path, weight), found in zip(decoder.named_parameters(), typed.parameters(), strict=True):
        if path.rpartition(".")[0] in wide:
            assert found.data_ptr() == weight.data_ptr(), path
        else:
            assert torch.equal(found, weight.half()), path
    assert decoder.dtype == torch.float32 and not decoder.float32_stream
    assert {p.dtype for p in decoder.parameters()} == {torch.float32}
    again = to_half(copy.deepcopy(decoder), PINS[name])
    assert (again.dtype, again.float32_stream) == (typed.dtype, typed.float32_stream)
    for weight, found in zip(again.parameters(), typed.parameters(), strict=True):
        assert torch.equal(weight, found)


def test_a_part_that_is_left_out_is_not_copied():
    decoder = choice_decoder("gqa")
    ends = half_copy(decoder, instead={decoder.blocks: torch.nn.ModuleList()})
    assert isinstance(ends, Decoder)
    assert len(ends.blocks) == 0
    assert len(decoder.blocks) == 2
    assert ends.embedding.weight.dtype == torch.float16


def test_attention_and_activations_take_the_type_of_their_products():
    decoder = random_decoder(CHOICES["gqa"])

    def inside(*pins):
        return {p for p in float32_modules(decoder, pins) if p.count(".") == 2}

    assert "blocks.0.ff" not in inside("blocks.0.ff.up")
    assert "blocks.0.ff" in inside("blocks.0.ff.down")
    assert "blocks.0.attention" not in inside("blocks.0.attention.qkv")
    assert "blocks.0.attention" in inside("blocks.0.attention.qkv", "blocks.0.attention.out")
    assert inside(STREAM) == set()


@pytest.mark.parametrize("name", PINS)
def test_the_cached_step_with_pins_is_the_uncached_decoder(name):
    decoder = random_decoder(CHOICES[name], 1, 0.2)
    typed = half_copy(decoder, PINS[name])
    rows = Rows(typed, 40)
    ids = [(37 * i + 11) % 96 for i in range(30)]
    found = [rows.step(ids[:10], list(range(10)), [9])]
    found += [rows.step_one(token, i) for i, token in enumerate(ids[10:], 10)]
    assert {t.dtype for t in rows.past} == {torch.float16}
    wanted = decoder(torch.tensor([ids]))[0, 9:]
    away = (torch.cat(found) - wanted).abs().max()
    assert 0 < away < 1e-2 * wanted.abs().max()


def test_what_is_beyond_half_precision_comes_through_where_it_is_pinned():
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        decoder.blocks[1].ff.up.weight *= 3e2
    ids = torch.tensor([[(37 * i + 11) % 96 for i in range(30)]])
    wanted = decoder(ids)
    assert not torch.isfinite(half_copy(decoder)(ids)).all()
    found = half_copy(decoder, ("blocks.1.ff.down", STREAM))(ids)
    assert (found - wanted).abs().max() < 1e-2 * wanted.abs().max()
