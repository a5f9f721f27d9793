"""The FP16 audit: models that half precision breaks come out right with the pins that it finds.

ONNX Runtime computes FP16 on a CPU in FP32. So the proof is PyTorch's own half precision, with the
same pins; that the graphs have them is shown in test_pinned.py.
"""

import dataclasses
import gc
import re

import pytest
import torch

from edgeformer.errors import CheckFailed
from edgeformer.export.audit import audit
from edgeformer.export.half import TooLarge, rounded
from edgeformer.export.quality import compare, torch_logits
from edgeformer.nn.layers import Norm
from edgeformer.nn.pins import STREAM, half_copy
from tests.nn.choices import PLAIN, choice_decoder, random_decoder

TEXT = [[(37 * i * (w + 3) + 11 * w) % 96 for i in range(40)] for w in range(4)]
KL = 1e-3  # nats: what half precision costs these models at most, where nothing goes wrong


def with_weights(config=PLAIN, **factors):
    """A random model with some matrices scaled; `__` in a name stands for a dot."""
    decoder = random_decoder(config, 1)
    with torch.no_grad():
        for name, factor in factors.items():
            decoder.get_submodule(name.replace("__", ".")).weight.mul_(factor)
    return decoder


def with_outlier(size, **changes):
    """Channels 3 and 7 of the residual stream are `size`, as trained models have them."""
    decoder = random_decoder(dataclasses.replace(PLAIN, **changes))
    with torch.no_grad():
        decoder.embedding.weight[:, 3], decoder.embedding.weight[:, 7] = size, -size
        for module in decoder.modules():
            if isinstance(module, Norm):
                module.weight *= size / (PLAIN.d_model / 2) ** 0.5
                module.weight[[3, 7]] = 0.0
    return decoder


def gemma(size):
    """norm_plus_one, a multiplied embedding, and a residual stream that grows to `size`."""
    decoder = choice_decoder("like-gemma")
    with torch.no_grad():
        decoder.embedding.weight[:, 5] = size / decoder.config.embedding_multiplier
        for block in decoder.blocks:
            block.ff_post_norm.weight[5] = size / 4
    return decoder


def modules(found):
    return [pin.module for pin in found.pins]


def in_pytorch(decoder, pins=()):
    """What PyTorch's half precision costs, with these pins; infinity where it gives no numbers."""
    try:
        return compare(torch_logits(decoder), torch_logits(half_copy(decoder, pins)), TEXT).kl
    except CheckFailed:
        return float("inf")


T5 = dataclasses.replace(PLAIN, feed_forward="relu", position="none", n_layers=4)
BROKEN = {
    "activation": (with_weights(blocks__1__ff__up=3e2), ["blocks.1.ff.down", STREAM]),
    "scores": (
        with_weights(blocks__0__attention__qkv=3e2),
        ["blocks.0.attention", "blocks.0.attention_norm"],
    ),
    "weight": (with_weights(blocks__0__ff__down=1e6), ["blocks.0.ff.down", STREAM]),
    "logits": (with_weights(final_norm=1e5), ["final_norm", "head"]),
    "outlier": (with_outlier(1e5), ["embedding", STREAM]),
    "layernorm": (with_outlier(1e5, norm="layernorm"), ["embedding", STREAM]),
    "gemma": (gemma(2e5), [STREAM, "blocks.2.ff_post_norm"]),
    "t5": (
        with_weights(T5, blocks__0__ff__down=3e4, blocks__2__attention__out=3e4),
        ["blocks.0.ff.down", STREAM, "blocks.2.attention.out"],
    ),
    "embedding": (with_weights(embedding=3e5), ["embedding", STREAM]),
    "tied": (
        with_weights(dataclasses.replace(PLAIN, tie_embeddings=True), embedding=3e5),
        ["embedding", STREAM],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_that_half_precision_breaks_comes_out_right_with_the_pins(name):
    decoder, wanted = BROKEN[name]
    found = audit(decoder, TEXT)
    assert modules(found) == wanted
    assert in_pytorch(decoder) > 0.1
    assert in_pytorch(decoder, wanted) < KL
    assert found.quality.kl < KL
    assert found.quality.tokens == sum(len(ids) - 1 for ids in TEXT)


@pytest.mark.parametrize("name", BROKEN)
def test_without_any_pin_of_an_overflow_it_overflows(name):
    decoder, _ = BROKEN[name]
    found = audit(decoder, TEXT)
    beyond = [pin.module for pin in found.pins if "beyond 65504" in pin.why]
    assert beyond
    for module in beyond:
        typed = half_copy(decoder, [other for other in modules(found) if other != module])
        with pytest.raises(TooLarge), torch.inference_mode(), rounded(typed):
            for ids in TEXT:
                typed(torch.tensor([ids]))


def test_the_reason_tells_the_number():
    found = audit(BROKEN["activation"][0], TEXT)
    largest = []

    def note(module, inputs):
        largest.append(float(inputs[0].abs().max()))

    decoder = BROKEN["activation"][0]
    with torch.no_grad():
        hook = decoder.blocks[1].ff.down.register_forward_pre_hook(note)
        for ids in TEXT:
            decoder(torch.tensor([ids]))
        hook.remove()
    assert found.pins[0].why.startswith("an activation of ")
    told = float(found.pins[0].why.split()[3].rstrip(","))
    assert told == pytest.approx(max(largest), rel=0.01)


@pytest.mark.parametrize("name", ("gqa", "like-gemma", "like-gpt2", "norm-post", "alibi-gqa"))
def test_a_sound_model_is_left_in_half_precision(name):
    decoder = choice_decoder(name)
    before = {key: t.clone() for key, t in decoder.state_dict().items()}
    found = audit(decoder, TEXT)
    assert found.pins == ()
    assert 0 < found.quality.kl < 1e-4
    assert found.quality.kl == pytest.approx(in_pytorch(decoder), rel=0.5, abs=2e-6)
    assert all(torch.equal(t, before[key]) for key, t in decoder.state_dict().items())


def test_an_outlier_of_10000_needs_no_pin_for_norms_are_fp32():
    found = audit(with_outlier(1e4), TEXT)
    assert found.pins == ()
    assert found.quality.kl < KL


def test_what_a_large_channel_takes_from_the_others_is_lost_in_its_sums():
    """LayerNorm subtracts the mean, in which the rounding of 10000 reaches every channel."""
    decoder = with_outlier(1e4, norm="layernorm")
    assert in_pytorch(decoder) > 5e-3
    found = audit(decoder, TEXT)
    assert modules(found) == [STREAM]
    assert "off by" in found.pins[0].why
    assert in_pytorch(decoder, [STREAM]) < KL
    assert found.quality.kl < KL


def test_numbers_near_the_end_of_the_range_are_pinned_for_other_texts():
    decoder = with_outlier(4e4)
    assert in_pytorch(decoder) < KL
    (pin,) = audit(decoder, TEXT).pins
    assert pin.module == STREAM
    assert pin.why == "an activation of 4e+04, too near to 65504"


@pytest.mark.parametrize("factor", (1.0, 1.1))
def test_sums_that_leave_the_range_on_the_way_are_found(factor):
    """Terms that cancel: fine where sums are FP32, infinite where they are FP16."""
    linear = torch.nn.Linear(2, 1, bias=False).half()
    with torch.no_grad():
        linear.weight[:] = torch.tensor([300.0, -300.0])
        x = torch.full((1, 2), 200.0 * factor).half()
        assert float(linear(x)) == 0.0
        if factor == 1.0:  # 60000 on the way
            with rounded(linear, "it"):
                assert float(linear(x)) == 0.0
            return
        wanted = "partial sums of up to 6.6e\\+04, beyond 65504"
        with pytest.raises(TooLarge) as caught, rounded(linear, "it"):
            linear(x)
        assert re.search(wanted, caught.value.why)
        assert caught.value.module == "it"


def test_weights_too_small_for_fp16_are_pinned():
    decoder = with_weights(blocks__0__ff__up=1e-6)
    with torch.no_grad():  # a norm makes up for it
        decoder.blocks[0].ff_norm.weight *= 1e4
        decoder.blocks[0].ff.down.weight *= 1e2
    found = audit(decoder, TEXT)
    assert "blocks.0.ff.up" in modules(found)
    assert "below 6.1e-5" in {pin.module: pin.why for pin in found.pins}["blocks.0.ff.up"]


def test_small_numbers_that_are_added_to_larger_ones_are_no_loss():
    """Biases, and the weights of norms that scale by 1 + weight."""
    decoder = random_decoder(dataclasses.replace(PLAIN, ff_bias=True, norm_plus_one=True), 1)
    with torch.no_grad():
        decoder.blocks[0].ff.up.bias.mul_(1e-6)
        decoder.blocks[0].ff_norm.weight.mul_(1e-6)
    assert audit(decoder, TEXT).pins == ()


@pytest.mark.parametrize(
    ("norm", "up", "wanted"),
    [
        (1e-4, 1e-3, ["blocks.1.ff.up", "blocks.1.ff.down"]),
        (3e-5, 3e-3, ["blocks.1.ff_norm", "blocks.1.ff"]),  # neither of its products alone helps
    ],
)
def test_activations_too_small_for_fp16_are_found_by_what_is_lost(norm, up, wanted):
    """ReLU's outputs near 1e-7, made large again by the next product."""
    decoder = with_weights(dataclasses.replace(PLAIN, feed_forward="relu"))
    with torch.no_grad():
        for name in ("embedding", "blocks.0.attention.out", "blocks.0.ff.down"):
            decoder.get_submodule(name).weight *= 0.01
        decoder.blocks[1].attention.out.weight *= 0.01
        decoder.blocks[1].ff_norm.weight *= norm
        decoder.blocks[1].ff.up.weight *= up
        decoder.blocks[1].ff.down.weight *= 3e5
        decoder.blocks[1].ff.down.weight.clamp_(-6e4, 6e4)
    assert in_pytorch(decoder) > 1e-2
    found = audit(decoder, TEXT)
    assert modules(found) == wanted
    assert "below 6.1e-5" in found.pins[0].why
    assert "off by" in found.pins[1].why
    assert in_pytorch(decoder, wanted) < KL


def test_a_key_that_an_fp16_cache_cannot_hold_is_refused():
    decoder = with_weights(blocks__0__attention__qkv=3e4)
    with pytest.raises(CheckFailed, match=r"blocks\.0\.attention .* a key or value") as caught:
        audit(decoder, TEXT)
    assert "fp32" in str(caught.value)


class HalfNorm(Norm):
    """Statistics in the type of what comes, as a careless port computes them."""

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def test_what_does_not_follow_the_types_of_its_weights_is_refused_by_name():
    decoder = with_outlier(1e3)
    norm = HalfNorm(PLAIN, PLAIN.d_model)
    norm.load_state_dict(decoder.blocks[1].attention_norm.state_dict())
    decoder.blocks[1].attention_norm = norm.eval()
    wanted = r"blocks\.1\.attention_norm \(in pow\) has an activation of 1e\+06.* does not help"
    with pytest.raises(CheckFailed, match=wanted):
        audit(decoder, TEXT)


def test_texts_that_are_not_measured_must_come_through_too():
    decoder = random_decoder(PLAIN, 1)
    with torch.no_grad():
        decoder.embedding.weight[95, 3] = 6e4
    texts = [[i % 95 for i in ids] for ids in TEXT]
    assert audit(decoder, texts).pins == ()
    found = audit(decoder, texts, also=[[1, 2, 95, 3]])
    assert modules(found) == [STREAM]
    assert found.quality.tokens == sum(len(ids) - 1 for ids in TEXT)
    assert audit(decoder, [], also=[[1, 2, 95, 3]]).quality is None


def test_pieces_of_a_window_are_measured_behind_what_stands_before_them():
    """Two windows of 80 tokens that end in the same 16, which are a piece of their own."""
    decoder = choice_decoder("gqa")
    texts = [[(41 * i * k + 5) % 96 for i in range(64)] + TEXT[0][:16] for k in (1, 7)]
    found = audit(decoder, texts).quality
    wanted = compare(torch_logits(decoder), torch_logits(half_copy(decoder)), texts)
    assert found.tokens == wanted.tokens == 2 * 79
    assert found.reference_perplexity == pytest.approx(wanted.reference_perplexity, rel=1e-5)
    assert found.kl == pytest.approx(wanted.kl, rel=0.5)


def test_one_block_at_a_time_is_in_half_precision():
    decoder = random_decoder(dataclasses.replace(PLAIN, n_layers=6), 1)
    block = sum(p.numel() for p in decoder.blocks[0].parameters())
    halves = []

    def count(text):
        gc.collect()
        found = (o for o in gc.get_objects() if isinstance(o, torch.nn.Parameter))
        halves.append(sum(p.numel() for p in found if p.dtype == torch.float16))

    audit(decoder, TEXT, progress=count)
    assert len(halves) == 7
    assert max(halves) <= block
