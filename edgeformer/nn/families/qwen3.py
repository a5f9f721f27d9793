"""Qwen3: Qwen2 with a norm on each query and key head, and without its biases."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.qwen2 import windows
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    head_dim = keys.integer("head_dim", 128)  # not derived from the width in this family
    sizes = {**llama_like.sizes(keys), "head_dim": head_dim}
    bias = keys.flag("attention_bias", False)
    return ModelConfig(
        **sizes,
        rope=rope_from(keys, head_dim, sizes["max_positions"]),
        window=windows(keys, sizes["n_layers"]),
        qk_norm="head",
        qkv_bias=bias,
        attention_out_bias=bias,
    )


FAMILY = Family("qwen3", ("Qwen3ForCausalLM", "Qwen3Model"), config_from, llama_like.tensors)
