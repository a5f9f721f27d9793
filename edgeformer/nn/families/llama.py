"""Llama, and what has its architecture: SmolLM2, TinyLlama, Vicuna, DeepSeek-LLM, Yi and more."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    sizes = llama_like.sizes(keys)
    bias = keys.flag("attention_bias", False)
    return ModelConfig(
        **sizes,
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]),
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=keys.flag("mlp_bias", False),
    )


FAMILY = Family("llama", ("LlamaForCausalLM", "LlamaModel"), config_from, llama_like.tensors)
