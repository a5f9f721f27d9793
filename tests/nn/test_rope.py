"""Rotary positions: every scaling against `transformers`, and far positions against float64."""

import math

import numpy as np
import pytest
import torch
import transformers as hf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from edgeformer.nn.config import ModelConfig, Rope, RopeScaling
from edgeformer.nn.rope import rope_frequencies, rope_tables, rotate
from tests.nn.references import LENGTH, LLAMA, OURS, THEIRS, Reference, check, make

ORIGINAL = 16  # tokens that the model "was trained on"; the sequence has LENGTH = 40
LONG = {"original_max_positions": ORIGINAL}
LONG_HF = {"original_max_position_embeddings": ORIGINAL}
DIVISORS = {"short_factor": (1.0, 1.1, 1.2, 1.3), "long_factor": (1.5, 2.0, 3.0, 5.0)}
BETAS = {"beta_fast": 4.0, "beta_slow": 0.5}
SCALINGS = {
    "linear": ({"kind": "linear", "factor": 4.0}, {}),
    "dynamic": ({"kind": "dynamic", "factor": 4.0, **LONG}, {}),
    "llama3": (
        {"kind": "llama3", "factor": 8.0, "high_freq_factor": 3.0, **LONG},
        {"low_freq_factor": 1.0, "high_freq_factor": 3.0},
    ),
    "yarn": ({"kind": "yarn", "factor": 4.0, **BETAS, **LONG}, BETAS),
    "yarn-default-betas": ({"kind": "yarn", "factor": 4.0, **LONG}, {}),
    "yarn-not-truncated": (
        {"kind": "yarn", "factor": 4.0, "truncate": False, **BETAS, **LONG},
        {"truncate": False, **BETAS},
    ),
    "yarn-mscale": (
        {"kind": "yarn", "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 0.9, **BETAS, **LONG},
        {"mscale": 0.7, "mscale_all_dim": 0.9, **BETAS},
    ),
    "yarn-attention-factor": (
        {"kind": "yarn", "factor": 4.0, "attention_factor": 1.3, **BETAS, **LONG},
        {"attention_factor": 1.3, **BETAS},
    ),
    "longrope": ({"kind": "longrope", "factor": 4.0, **DIVISORS, **LONG}, DIVISORS),
    "longrope-attention-factor": (
        {"kind": "longrope", "attention_factor": 0.8, **DIVISORS, **LONG},
        {"attention_factor": 0.8, **DIVISORS},
    ),
}


def llama_config(ours: dict, theirs: dict, theta: float = 500.0, **changes) -> hf.LlamaConfig:
    kind = ours["kind"]
    # there, dynamic counts max_position_embeddings as the length of the training
    length = ORIGINAL if kind == "dynamic" else 64
    scaling = {"rope_type": kind, "rope_theta": theta, "factor": ours.get("factor", 4.0)}
    if kind not in ("linear", "dynamic"):
        scaling.update(LONG_HF)
    lists = {k: list(v) if isinstance(v, tuple) else v for k, v in theirs.items()}
    values = {**THEIRS, "max_position_embeddings": length, "rms_norm_eps": 1e-5, **changes}
    return hf.LlamaConfig(**values, rope_parameters={**scaling, **lists})


@pytest.mark.parametrize("name", SCALINGS)
def test_scaled_logits_equal_those_of_transformers_at_full_length(name):
    ours, theirs = SCALINGS[name]
    model = make(hf.LlamaForCausalLM, llama_config(ours, theirs))
    # max_positions stands for the length that dynamic and longrope depend on
    config = ModelConfig(
        **{**OURS, "max_positions": LENGTH},
        rope=Rope(500.0, scaling=RopeScaling(**ours)),
        tie_embeddings=False,
    )
    other = {**ours, "factor": 5.0} if "attention_factor" not in ours else {"kind": "linear"}
    breaks = ({"rope": Rope(500.0)}, {"rope": Rope(500.0, scaling=RopeScaling(**other))})
    check(Reference(model, config, LLAMA, breaks=breaks))


@pytest.mark.parametrize("length", (ORIGINAL, LENGTH))
def test_phi3_takes_short_or_long_divisors_by_length(length):
    theirs = hf.Phi3Config(
        **{**THEIRS, "max_position_embeddings": 64},
        original_max_position_embeddings=ORIGINAL,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 500.0,
            "original_max_position_embeddings": ORIGINAL,
            "partial_rotary_factor": 1.0,
            "short_factor": list(DIVISORS["short_factor"]),
            "long_factor": list(DIVISORS["long_factor"]),
        },
    )
    scaling = RopeScaling("longrope", factor=4.0, **LONG, **DIVISORS)  # factor 64 / 16
    config = ModelConfig(
        **{**OURS, "max_positions": length},
        n_kv_heads=2,
        rope=Rope(500.0, scaling=scaling),
        tie_embeddings=False,
    )
    names = {
        **LLAMA,
        "blocks.{i}.attention.qkv": "model.layers.{i}.self_attn.qkv_proj",
        "blocks.{i}.ff.up": "model.layers.{i}.mlp.gate_up_proj",
    }
    breaks = ({"max_positions": 64},) if length == ORIGINAL else ()
    check(Reference(make(hf.Phi3ForCausalLM, theirs), config, names, breaks=breaks), length)


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", (8, ORIGINAL, 1000))
def test_frequencies_of_wide_heads_equal_those_of_transformers(name, length):
    ours, theirs = dict(SCALINGS[name][0]), dict(SCALINGS[name][1])
    for part in DIVISORS:
        if part in ours:
            ours[part] = theirs[part] = tuple(np.linspace(1.0, 6.0, 32).tolist())
    config = llama_config(ours, theirs, theta=10000.0, head_dim=64)
    wanted, factor = ROPE_INIT_FUNCTIONS[ours["kind"]](config, seq_len=length)
    found, found_factor = rope_frequencies(Rope(scaling=RopeScaling(**ours)), 64, length)
    assert found_factor == pytest.approx(factor, rel=1e-12)
    # theirs are float32
    np.testing.assert_allclose(found.numpy(), wanted.double().numpy(), rtol=2e-6)


@pytest.mark.parametrize(
    ("head_dim", "factor", "kept", "blended"),
    ((64, 32.0, range(0, 15), range(15, 18)), (128, 8.0, range(0, 29), range(29, 35))),
)
def test_llama3_keeps_blends_and_divides_the_published_pairs(head_dim, factor, kept, blended):
    scaling = RopeScaling("llama3", factor=factor, original_max_positions=8192)
    plain, _ = rope_frequencies(Rope(500000.0), head_dim, 8192)
    scaled, _ = rope_frequencies(Rope(500000.0, scaling=scaling), head_dim, 8192)
    ratio = (plain / scaled).numpy()
    for pair in range(head_dim // 2):
        if pair in kept:
            assert ratio[pair] == 1.0, pair
        elif pair in blended:
            assert 1.0 < ratio[pair] < factor, pair
        else:
            assert ratio[pair] == pytest.approx(factor, rel=1e-12), pair


def test_llama3_tables_hold_at_position_5000():
    """Short prompts look right without the scaling: the angle differs only far out."""
    scaling = RopeScaling("llama3", factor=32.0, original_max_positions=8192)
    cos, sin = rope_tables(Rope(500000.0, scaling=scaling), 64, 5001)
    unscaled, _ = rope_tables(Rope(500000.0), 64, 5001)
    pair = np.arange(32, dtype=np.float64)
    frequency = 500000.0 ** (-pair / 32)
    smooth = np.clip((8192 * frequency / (2 * np.pi) - 1) / 3, 0, 1)
    angle = 5000 * (smooth * frequency + (1 - smooth) * frequency / 32)
    np.testing.assert_allclose(cos[5000, :32].numpy(), np.cos(angle), atol=1e-7)
    np.testing.assert_allclose(sin[5000, 32:].numpy(), np.sin(angle), atol=1e-7)
    assert (cos[5000] - unscaled[5000]).abs().max() > 0.1


def test_tables_keep_their_angles_at_a_million_positions():
    """In float32 the angle of position 1,000,000 is off by up to 0.03."""
    cos, _ = rope_tables(Rope(10000.0), 8, 2**20)
    for position in (100_003, 1_000_003):
        for pair in range(4):
            angle = position * 10000.0 ** (-pair / 4)
            assert cos[position, pair].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_rotation_is_a_complex_product_and_leaves_the_rest():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 3, 10, generator=generator)  # [T, heads, head_dim]
    cos, sin = rope_tables(Rope(100.0, width=6), 10, 5)
    turned = rotate(x, cos[:, None], sin[:, None])
    pairs = x[..., :3].numpy().astype(np.float64) + 1j * x[..., 3:6].numpy()
    frequency = 100.0 ** (-np.arange(3) / 3)
    pairs = pairs * np.exp(1j * np.arange(5)[:, None, None] * frequency)
    np.testing.assert_allclose(turned[..., :3].numpy(), pairs.real, atol=1e-6)
    np.testing.assert_allclose(turned[..., 3:6].numpy(), pairs.imag, atol=1e-6)
    assert torch.equal(turned[..., 6:], x[..., 6:])
