"""Choices of the Llama, Qwen, OLMo, Cohere, Granite and SmolLM families."""

import pytest
import transformers as hf

from edgeformer.nn.config import ModelConfig, Rope
from tests.nn.references import (
    LENGTH,
    LLAMA,
    OURS,
    QK_NORM,
    THEIRS,
    Reference,
    check,
    interleaved,
    make,
)

GQA = {"num_key_value_heads": 2}
BIASES = {"qkv_bias": True, "attention_out_bias": True, "ff_bias": True}


def llama(ours: dict, theirs: dict, breaks: tuple[dict, ...]) -> Reference:
    theirs = {**THEIRS, "rope_theta": 10000.0, "rms_norm_eps": 1e-5, **theirs}
    model = make(hf.LlamaForCausalLM, hf.LlamaConfig(**theirs))
    tied = theirs.get("tie_word_embeddings", False)
    config = ModelConfig(**{**OURS, "tie_embeddings": tied, **ours})
    return Reference(model, config, LLAMA, breaks=breaks)


def llama_gqa() -> Reference:
    return llama(
        {"n_kv_heads": 2, "rope": Rope(theta=500.0)},
        dict(**GQA, rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
        (
            {"rope": Rope(theta=520.0)},
            {"position": "none", "rope": Rope()},
            {"norm_eps": 1e-3},
            {"norm": "layernorm", "norm_bias": False},
            {"norm_plus_one": True},
            {"feed_forward": "geglu"},
            {"attention_scale": 0.36},
            {"window": LENGTH - 1},
        ),
    )


def llama_mha_biases() -> Reference:
    return llama(BIASES, {"attention_bias": True, "mlp_bias": True}, ())


def llama_mqa_wide_heads() -> Reference:
    theirs = {"num_key_value_heads": 1, "head_dim": 12, "tie_word_embeddings": True}
    return llama({"n_kv_heads": 1, "head_dim": 12}, theirs, ({"attention_scale": 32**-0.5},))


def llama_geglu() -> Reference:
    breaks = ({"feed_forward": "geglu_tanh"}, {"feed_forward": "swiglu"})
    return llama({"feed_forward": "geglu"}, {"hidden_act": "gelu"}, breaks)


def llama_geglu_tanh() -> Reference:
    breaks = ({"feed_forward": "geglu"},)
    return llama({"feed_forward": "geglu_tanh"}, {"hidden_act": "gelu_pytorch_tanh"}, breaks)


def mistral_window() -> Reference:
    theirs = hf.MistralConfig(**THEIRS, **GQA, sliding_window=7, rms_norm_eps=1e-5)
    config = ModelConfig(**OURS, n_kv_heads=2, window=7, tie_embeddings=False)
    breaks = ({"window": 6}, {"window": 8}, {"window": (7, 7, None)})
    return Reference(make(hf.MistralForCausalLM, theirs), config, LLAMA, breaks=breaks)


def qwen2_biases() -> Reference:
    theirs = hf.Qwen2Config(**THEIRS, **GQA, rms_norm_eps=1e-5)
    config = ModelConfig(**OURS, n_kv_heads=2, qkv_bias=True, tie_embeddings=False)
    return Reference(make(hf.Qwen2ForCausalLM, theirs), config, LLAMA)


def qwen3_qk_norm() -> Reference:
    theirs = hf.Qwen3Config(**THEIRS, **GQA, head_dim=12, rms_norm_eps=1e-5)
    config = ModelConfig(**OURS, n_kv_heads=2, head_dim=12, qk_norm="head", tie_embeddings=False)
    return Reference(make(hf.Qwen3ForCausalLM, theirs), config, {**LLAMA, **QK_NORM})


def olmo2_output_norm() -> Reference:
    theirs = hf.Olmo2Config(**THEIRS, **GQA, rms_norm_eps=1e-5)
    config = ModelConfig(
        **OURS, n_kv_heads=2, qk_norm="full", norm_placement="output", tie_embeddings=False
    )
    names = {
        **LLAMA,
        **QK_NORM,
        "blocks.{i}.attention_norm": "model.layers.{i}.post_attention_layernorm",
        "blocks.{i}.ff_norm": "model.layers.{i}.post_feedforward_layernorm",
    }
    breaks = ({"norm_placement": "pre"},)
    return Reference(make(hf.Olmo2ForCausalLM, theirs), config, names, breaks=breaks)


def cohere_no_bias() -> Reference:
    rope = {"rope_type": "default", "rope_theta": 500.0}
    theirs = hf.CohereConfig(**THEIRS, **GQA, logit_scale=0.25, rope_parameters=rope)
    config = ModelConfig(
        **OURS,
        n_kv_heads=2,
        norm="layernorm",
        norm_bias=False,
        rope=Rope(theta=500.0),
        parallel="one_norm",
        logit_multiplier=0.25,
    )
    breaks = ({"logit_multiplier": 1.0}, {"norm": "rmsnorm"})
    return Reference(make(hf.CohereForCausalLM, theirs), config, LLAMA, interleaved, breaks)


def granite_multipliers() -> Reference:
    theirs = hf.GraniteConfig(
        **THEIRS,
        **GQA,
        rms_norm_eps=1e-5,
        embedding_multiplier=3.0,
        residual_multiplier=0.4,
        attention_multiplier=0.2,
        logits_scaling=4.0,
    )
    config = ModelConfig(
        **OURS,
        n_kv_heads=2,
        embedding_multiplier=3.0,
        residual_multiplier=0.4,
        attention_scale=0.2,
        logit_multiplier=0.25,
        tie_embeddings=False,
    )
    breaks = (
        {"embedding_multiplier": 1.0},
        {"residual_multiplier": 1.0},
        {"attention_scale": None},
        {"logit_multiplier": 1.0},
    )
    return Reference(make(hf.GraniteForCausalLM, theirs), config, LLAMA, breaks=breaks)


def smollm3_layers_without_rope() -> Reference:
    theirs = hf.SmolLM3Config(**THEIRS, **GQA, rms_norm_eps=1e-5, no_rope_layers=[1, 0, 1])
    theta = theirs.rope_parameters["rope_theta"]
    config = ModelConfig(
        **OURS, n_kv_heads=2, rope=Rope(theta=theta), rope_layers=("global", "none", "global")
    )
    breaks = ({"rope_layers": None}, {"rope_layers": ("none", "global", "global")})
    return Reference(make(hf.SmolLM3ForCausalLM, theirs), config, LLAMA, breaks=breaks)


def smollm3_without_positions() -> Reference:
    theirs = hf.SmolLM3Config(**THEIRS, **GQA, rms_norm_eps=1e-5, no_rope_layers=[0, 0, 0])
    config = ModelConfig(**OURS, n_kv_heads=2, position="none")
    breaks = ({"position": "rope"},)
    return Reference(make(hf.SmolLM3ForCausalLM, theirs), config, LLAMA, breaks=breaks)


FAMILIES = (
    llama_gqa,
    llama_mha_biases,
    llama_mqa_wide_heads,
    llama_geglu,
    llama_geglu_tanh,
    mistral_window,
    qwen2_biases,
    qwen3_qk_norm,
    olmo2_output_norm,
    cohere_no_bias,
    granite_multipliers,
    smollm3_layers_without_rope,
    smollm3_without_positions,
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_logits_equal_those_of_transformers_and_a_wrong_choice_shows(family):
    check(family())
