"""Choices of the Gemma families: sandwich norms, soft caps, 1 + w, two thetas."""

import pytest
import transformers as hf

from edgeformer.nn.config import ModelConfig, Rope
from tests.nn.references import LLAMA, OURS, QK_NORM, SANDWICH, THEIRS, Reference, check, make

GQA = {"num_key_value_heads": 2}


def gemma2() -> Reference:
    theirs = hf.Gemma2Config(
        **THEIRS,
        **GQA,
        head_dim=12,
        rms_norm_eps=1e-6,
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=20,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
        sliding_window=7,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )
    config = ModelConfig(
        **OURS,
        n_kv_heads=2,
        head_dim=12,
        norm_eps=1e-6,
        norm_plus_one=True,
        norm_placement="sandwich",
        feed_forward="geglu_tanh",
        attention_scale=20**-0.5,
        attention_soft_cap=2.0,
        logit_soft_cap=3.0,
        embedding_multiplier=32**0.5,
        window=(7, None, 7),
    )
    breaks = (
        {"norm_plus_one": False},
        {"feed_forward": "geglu"},
        {"attention_scale": None},
        {"attention_soft_cap": 2.2},
        {"attention_soft_cap": None},
        {"logit_soft_cap": None},
        {"embedding_multiplier": 5.0},
        {"window": (7, 7, 7)},
    )
    names = {**LLAMA, **SANDWICH}
    return Reference(make(hf.Gemma2ForCausalLM, theirs), config, names, breaks=breaks)


def gemma3_two_thetas() -> Reference:
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    theirs = hf.Gemma3TextConfig(
        **THEIRS,
        **GQA,
        head_dim=12,
        rms_norm_eps=1e-6,
        query_pre_attn_scalar=10,
        sliding_window=7,
        layer_types=kinds,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    )
    config = ModelConfig(
        **OURS,
        n_kv_heads=2,
        head_dim=12,
        rope=Rope(theta=5000.0, scaling={"kind": "linear", "factor": 8.0}),
        local_rope=Rope(theta=100.0),
        rope_layers=("local", "local", "global"),
        window=(7, 7, None),
        norm_eps=1e-6,
        norm_plus_one=True,
        norm_placement="sandwich",
        feed_forward="geglu_tanh",
        qk_norm="head",
        attention_scale=10**-0.5,
        embedding_multiplier=32**0.5,
    )
    breaks = (
        {"rope_layers": ("local", "global", "global")},
        {"local_rope": Rope(theta=110.0)},
        {"rope": Rope(theta=5000.0, scaling={"kind": "linear", "factor": 4.0})},
    )
    names = {**LLAMA, **SANDWICH, **QK_NORM}
    return Reference(make(hf.Gemma3ForCausalLM, theirs), config, names, breaks=breaks)


@pytest.mark.parametrize("family", (gemma2, gemma3_two_thetas), ids=lambda f: f.__name__)
def test_logits_equal_those_of_transformers_and_a_wrong_choice_shows(family):
    check(family())
