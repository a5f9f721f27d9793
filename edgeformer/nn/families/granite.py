"""Granite: llama with multipliers on embedding, scores, residual and logits."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    sizes = llama_like.sizes(keys)
    bias = keys.flag("attention_bias", False)
    divisor = keys.number("logits_scaling", 1.0)
    if divisor <= 0:
        raise keys.error("logits_scaling", "a number above 0")
    return ModelConfig(
        **sizes,
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]),
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=keys.flag("mlp_bias", False),
        embedding_multiplier=keys.number("embedding_multiplier", 1.0),
        attention_scale=keys.number("attention_multiplier", 1.0),
        residual_multiplier=keys.number("residual_multiplier", 1.0),
        logit_multiplier=1.0 / divisor,
    )


FAMILY = Family("granite", ("GraniteForCausalLM", "GraniteModel"), config_from, llama_like.tensors)
