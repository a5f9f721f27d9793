"""INT8: smoothing changes nothing in float32, rounding is what the numbers say, and what cannot be
quantized is named."""

import copy

import numpy as np
import pytest
import torch

from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.nn.quantize.int8 import calibrated, half_scale, in_int8, untied
from edgeformer.nn.quantize.int8_ranges import CALIBRATORS, reach
from edgeformer.nn.quantize.int8_sensitivity import quantize_int8
from edgeformer.nn.quantize.int8_smooth import divide, factors, folds, head_fold
from tests.nn.choices import CHOICES, choice_decoder

IDS = torch.randint(96, (8, 40), generator=torch.Generator().manual_seed(0))


def logits(decoder, ids=IDS):
    with torch.no_grad():
        return decoder(ids)


def relative(found, wanted):
    return float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1.0))


FEW = ("gqa", "tied", "all-biases", "relu", "rmsnorm-plus-one", "parallel-one-norm", "like-gemma")
EVERY = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in CHOICES]


@pytest.mark.parametrize("name", EVERY)
def test_every_fold_changes_nothing_in_float32(name):
    decoder = choice_decoder(name)
    wanted = logits(decoder)
    c, generator = decoder.config, torch.Generator().manual_seed(0)
    every = [fold for i in range(c.n_layers) for fold in folds(c, i)] + head_fold(c)
    assert len(every) >= c.n_layers  # attention.out at least
    for fold in every:
        own = untied(decoder)
        weights = [own.get_submodule(product).weight for product in fold.products]
        most = torch.rand(weights[0].shape[1], generator=generator) * 30
        by = factors(c, fold, most, weights, 0.8)
        before = copy.deepcopy(own.state_dict())
        divide(own, fold, by)
        changed = {n for n, weight in own.state_dict().items() if not weight.equal(before[n])}
        assert {product + ".weight" for product in fold.products} < changed
        assert relative(logits(own), wanted) < 2e-5, fold


def test_a_wrong_fold_would_be_seen():
    decoder = choice_decoder("gqa")
    (fold,) = [f for f in folds(decoder.config, 0) if f.products == ("blocks.0.ff.down",)]
    own = untied(decoder)
    weight = own.get_submodule(fold.products[0]).weight
    by = factors(decoder.config, fold, torch.rand(weight.shape[1]) * 9, [weight], 0.8)
    divide(own, fold, by)
    own.get_submodule(fold.source).weight.data[0] /= 2.0  # a row of the gate
    assert relative(logits(own), logits(decoder)) > 1e-3


@pytest.mark.parametrize("name", ["norm-post", "norm-output", "gelu", "geglu", "parallel-one-norm"])
def test_what_has_no_exact_place_is_left_out(name):
    products = {p.split(".", 2)[2] for f in folds(CHOICES[name], 1) for p in f.products}
    assert (
        products
        == {
            "norm-post": {"attention.out", "ff.down"},
            "norm-output": {"attention.out", "ff.down"},
            "gelu": {"attention.qkv", "attention.out", "ff.up"},
            "geglu": {"attention.qkv", "attention.out", "ff.up", "ff.down"},
            "parallel-one-norm": {"attention.qkv", "attention.out", "ff.up", "ff.down"},
        }[name]
    )


def test_calibrators_agree_with_numpy():
    x = torch.distributions.StudentT(4.0).sample((50_000,))
    x = x.clamp(-60, 60) if x.abs().max() > 60 else x
    most = float(x.abs().max())
    assert reach(x, "max") == most
    step = most / 2048
    assert abs(reach(x, "percentile") - np.quantile(x.abs().numpy(), 0.9999)) <= 2 * step

    def squared_error(cut):
        held = (x / (cut / 127)).round().clamp(-127, 127) * (cut / 127)
        return float((held - x).square().mean())

    best = min(squared_error(cut) for cut in np.linspace(0.1, 1.0, 91) * most)
    assert squared_error(reach(x, "error")) < 1.02 * best
    assert squared_error(reach(x, "error")) < 0.9 * squared_error(most)
    assert 3.0 < reach(x, "entropy") < most


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_every_calibrator_bears_zeros_one_number_and_a_spike(calibrator):
    assert reach(torch.zeros(9, 4), calibrator) == 0.0
    assert 0.9 < reach(torch.full((64,), -1.0), calibrator) <= 1.0
    spike = torch.ones(1000)
    spike[5] = 2.0**99
    assert 0 < reach(spike, calibrator) <= 2.0**99
    assert 0 <= reach(torch.tensor([2.0**-130]), calibrator) <= 2.0**-130


def test_an_unknown_calibrator_is_refused():
    with pytest.raises(EdgeformerError, match=r"'mode'; known: max, percentile, entropy, error"):
        reach(torch.ones(3), "mode")


def test_scales_are_numbers_of_half_precision_and_hold_the_largest_weight():
    scale = torch.tensor([0.1, 1.0, 65504.0, 7e4, 1e-7, 1e-30, 2.0**-14])
    found = half_scale(scale)
    assert found.equal(found.half().float())
    assert (found >= scale).all()
    assert found.tolist()[1:3] == [1.0, 65504.0]
    assert torch.isinf(found[3])
    assert found[5] == 2.0**-24
    assert (found[:2] < scale[:2] * 1.001).all()


def outlier(name="gqa", factor=1e4):
    """A decoder whose norms make one channel large, which the weights behind them make good."""
    decoder = choice_decoder(name)
    with torch.no_grad():
        for block in decoder.blocks:
            for norm, linear in (
                (block.attention_norm, block.attention.qkv),
                (block.ff_norm, block.ff.up),
            ):
                norm.weight[3] *= factor
                linear.weight[:, 3] /= factor
    return decoder


def divergence(decoder, own, products, ids=IDS):
    wanted = logits(decoder, ids).log_softmax(-1)
    with in_int8(own, products):
        found = logits(own, ids).log_softmax(-1)
    return float((wanted.exp() * (wanted - found)).sum(-1).mean())


def test_smoothing_bears_an_outlier_channel_of_ten_thousand():
    decoder = outlier()
    own, products, left_out = calibrated(decoder, IDS)
    assert left_out == {}
    assert len(products) == 9
    smooth = divergence(decoder, own, products)
    own, products, _ = calibrated(decoder, IDS, smooth=False)
    assert divergence(decoder, own, products) > 20 * smooth


def test_what_costs_too_much_stays_out_and_the_rest_is_within_the_budget():
    decoder = outlier()
    found = quantize_int8(decoder, IDS, smooth=False, budget=0.05)
    assert set(found.left_out) >= {"blocks.0.attention.qkv", "blocks.0.ff.up"}
    assert 0 < len(found.products) < 9
    assert all("costs KL" in why and "0.05" in why for why in found.left_out.values())
    assert divergence(decoder, untied(decoder), found.products) < 0.06
    assert found.folded == {}


def test_the_caller_keeps_its_decoder():
    decoder = choice_decoder("tied")
    before = copy.deepcopy(decoder.state_dict())
    quantize_int8(decoder, IDS, budget=10.0)
    assert decoder.config == CHOICES["tied"]
    assert list(before) == list(decoder.state_dict())
    assert all(weight.equal(before[name]) for name, weight in decoder.state_dict().items())


def test_a_head_that_is_left_out_leaves_the_last_norm_alone():
    decoder = choice_decoder("tied")
    with torch.no_grad():
        for block in decoder.blocks:  # layers that hardly count
            block.attention.out.weight.mul_(1e-2)
            block.ff.down.weight.mul_(1e-2)
    own, products, _ = calibrated(decoder, IDS)
    head = divergence(decoder, own, {"head": products.pop("head")})
    rest = divergence(decoder, own, products)
    assert rest < 0.5 * head
    found = quantize_int8(decoder, IDS, budget=(rest + head) / 2)
    assert list(found.left_out) == ["head"]
    assert len(found.folded) > 0
    assert not {name for name in found.folded if name.startswith(("final", "head", "emb"))}


def test_outputs_and_inputs_of_zeros_are_borne():
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        decoder.blocks[0].ff.up.weight.zero_()  # so that ff.down is given zeros
        decoder.blocks[1].attention.qkv.weight[5].zero_()
        decoder.blocks[1].attention_norm.weight[2] = 0.0  # an input that is always 0
    own, products, left_out = calibrated(decoder, IDS)
    assert left_out == {"blocks.0.ff.down": "its inputs are 0 throughout the calibration text"}
    assert products["blocks.0.ff.up"].scales.eq(1.0).all()
    assert products["blocks.1.attention.qkv"].scales[5] == 1.0
    assert torch.isfinite(logits(own)).all()
    assert divergence(decoder, own, products) < 0.5


def test_weights_too_small_for_half_precision_become_zeros():
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        decoder.blocks[0].ff.down.weight.mul_(1e-9)
    _, products, _ = calibrated(decoder, IDS, smooth=False)
    product = products["blocks.0.ff.down"]
    assert product.scales.eq(2.0**-24).all()
    assert product.values.count_nonzero() == 0


def test_inputs_beyond_half_precision_stay_out():
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        decoder.blocks[0].attention_norm.weight.fill_(1e8)
        decoder.blocks[0].attention.qkv.weight.div_(1e8)
    _, _, left_out = calibrated(decoder, IDS, smooth=False)
    assert left_out == {
        "blocks.0.attention.qkv": "the scale of its inputs is beyond half precision"
    }


def test_activations_that_are_no_numbers_are_named():
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        decoder.blocks[0].ff.up.weight.fill_(1e25)
    with pytest.raises(CheckFailed, match=r"inputs of blocks\.0\.ff\.down are no finite numbers"):
        quantize_int8(decoder, IDS)


@pytest.mark.parametrize("ids", [IDS[:1, :1], IDS[:1, :63], IDS[:0]])
def test_a_text_that_says_too_little_is_refused(ids):
    tokens = f"has {ids.numel()} tokens; INT8 needs at least 64"
    with pytest.raises(EdgeformerError, match=tokens):
        quantize_int8(choice_decoder("gqa"), ids)


def test_a_model_that_bears_no_int8_is_told():
    with pytest.raises(
        EdgeformerError, match="no product of this model can be INT8 within KL 1e-09"
    ):
        quantize_int8(choice_decoder("gqa"), IDS, budget=1e-9)
