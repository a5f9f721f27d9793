"""Gemma: llama with 1 + w norms, a scaled embedding, GeGLU and its own head width."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    """`gelu` stands for its tanh approximation in Gemma's first configs."""
    sizes = gemma_sizes(keys)
    keys.only("hidden_act", "gelu", "gelu_pytorch_tanh")
    return ModelConfig(**sizes, rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]))


def gemma_sizes(keys: Keys, act: tuple[str, ...] = ("gelu_pytorch_tanh",)) -> dict[str, Any]:
    """What the three generations share; `hidden_act` is theirs only in the first."""
    keys.only("hidden_activation", *act)
    width = keys.integer("hidden_size")
    heads = keys.integer("num_attention_heads")
    bias = keys.flag("attention_bias", False)
    return {
        "vocab_size": keys.integer("vocab_size"),
        "d_model": width,
        "n_layers": keys.layers("num_hidden_layers"),
        "n_heads": heads,
        "n_kv_heads": keys.integer("num_key_value_heads", heads),
        "head_dim": keys.integer("head_dim", 256),
        "d_ff": keys.integer("intermediate_size"),
        "max_positions": keys.integer("max_position_embeddings", 8192),
        "norm_eps": keys.number("rms_norm_eps", 1e-6),
        "norm_plus_one": True,
        "feed_forward": "geglu_tanh",
        "embedding_multiplier": width**0.5,
        "qkv_bias": bias,
        "attention_out_bias": bias,
        "tie_embeddings": keys.flag("tie_word_embeddings", True),
    }


FAMILY = Family("gemma", ("GemmaForCausalLM", "GemmaModel"), config_from, llama_like.tensors)
