"""Which form each product takes, on models that are made to need it; and what is refused."""

import copy

import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.quantize.int8_dynamic import dynamic_int8
from edgeformer.nn.quantize.int8_forms import Form, int8_dense, rounded
from tests.nn.choices import choice_decoder

IDS = (torch.arange(160) * 7 % 96).reshape(4, 40)


def loss(decoder, found, ids=IDS):
    """Mean KL of what the quantized decoder says, the inputs of each call rounded together."""
    like = copy.deepcopy(decoder)
    for name, weight in found.folded.items():
        like.get_parameter(name).data = weight.clone()
    for name, module in like.named_modules():
        form = found.forms.get(f"{name}.weight")
        if form is None or name == "head":
            continue
        module.weight.data = int8_dense(module.weight.data)
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, x, form=form: (rounded(x[0], form),))
    with torch.no_grad():
        p, q = (d(ids).log_softmax(-1) for d in (decoder, like))
    return float((p.exp() * (p - q)).sum(-1).mean())


def with_outlier(decoder, size):
    """One channel of the norm before ff.up a thousand times the others, its weights as small."""
    block = decoder.blocks[1]
    with torch.no_grad():
        block.ff_norm.weight[5] *= size
        block.ff.up.weight[:, 5] /= size
    return decoder


@pytest.mark.parametrize("choice", ["gqa", "tied", "all-biases", "parallel-one-norm", "mqa"])
def test_every_product_has_a_form_and_the_decoder_is_as_it_was(choice):
    decoder = choice_decoder(choice)
    before = copy.deepcopy(decoder.state_dict())
    found = dynamic_int8(decoder, IDS)
    wanted = {n for n, p in decoder.named_parameters() if p.dim() == 2}
    assert set(found.forms) | set(found.left_out) == wanted
    assert all(torch.equal(before[n], p) for n, p in decoder.state_dict().items())
    assert loss(decoder, found) < 0.01


def test_smoothing_changes_no_result():
    decoder = with_outlier(choice_decoder("gqa"), 1e3)
    found = dynamic_int8(decoder, IDS)
    assert found.folded, "nothing was smoothed"
    like = copy.deepcopy(decoder)
    for name, weight in found.folded.items():
        like.get_parameter(name).data = weight
    with torch.no_grad():
        wanted, got = decoder(IDS), like(IDS)
    assert (wanted - got).abs().max() < 1e-4 * wanted.abs().max()


def test_one_channel_of_10000_survives_by_smoothing():
    plain = choice_decoder("gqa")
    decoder = with_outlier(choice_decoder("gqa"), 1e4)
    found = dynamic_int8(decoder, IDS)
    assert "blocks.1.ff.up.weight" in found.forms
    assert loss(decoder, found) < 2 * loss(plain, dynamic_int8(plain, IDS)) + 1e-3
    found.folded.clear()
    assert loss(decoder, found) > 0.05, "without smoothing it would be lost"


def test_a_product_that_cannot_be_int8_stays_out_and_says_why():
    decoder = choice_decoder("gqa")
    with torch.no_grad():  # each output has one weight that leaves the rest one step in 127
        weight = decoder.blocks[0].attention.qkv.weight
        weight[:, 0] = 1e4
        decoder.blocks[0].attention_norm.weight[0] = 0.0
    found = dynamic_int8(decoder, IDS)
    assert "blocks.0.attention.qkv.weight" not in found.forms
    assert "its outputs are off by" in found.left_out["blocks.0.attention.qkv.weight"]


def test_a_huge_token_gives_its_product_rows():
    decoder = choice_decoder("gqa")
    with torch.no_grad():  # the token 7 alone makes ff.down's inputs a thousand times as large
        decoder.embedding.weight[7] *= 1e3
    decoder.config = decoder.config.__class__(
        **{**decoder.config.__dict__, "norm_placement": "output"}
    )
    found = dynamic_int8(_no_norm(decoder), IDS)
    assert Form.PLAIN is not found.forms["blocks.0.attention.qkv.weight"]


def _no_norm(decoder):
    """Products read the residual itself where norms stand behind them."""
    for block in decoder.blocks:
        block.placement = "output"
    return decoder


def test_a_text_of_one_word_and_a_model_of_zeros_are_quantized():
    decoder = choice_decoder("gqa")
    found = dynamic_int8(decoder, torch.full((1, 40), 3))
    assert loss(decoder, found) < 0.05
    with torch.no_grad():
        for p in decoder.parameters():
            p.zero_()
    found = dynamic_int8(decoder, IDS)
    assert loss(decoder, found) == 0.0


def test_what_the_caller_leaves_out_is_left_out():
    decoder = choice_decoder("gqa")
    found = dynamic_int8(decoder, IDS, ["blocks.0.ff.down.weight", "head.weight"])
    assert not {"blocks.0.ff.down.weight", "head.weight"} & set(found.forms)
    assert found.left_out["head.weight"] == "asked for"
    with pytest.raises(EdgeformerError, match=r"has no blocks\.9\.ff\.down"):
        dynamic_int8(decoder, IDS, ["blocks.9.ff.down"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(value):
    decoder = choice_decoder("gqa")
    decoder.blocks[1].ff.down.weight.data[3, 4] = value
    with pytest.raises(EdgeformerError, match=r"^blocks\.1\.ff\.down\.weight has numbers that are"):
        dynamic_int8(decoder, IDS)


def test_rounding_in_16_bits_is_256_times_as_fine():
    x = torch.randn(20, 64, generator=torch.Generator().manual_seed(0))
    coarse, fine = ((rounded(x, form) - x).abs().mean() for form in (Form.ROWS, Form.FINE))
    assert 150 < coarse / fine < 400
