"""StableLM: llama with LayerNorm, RoPE on part of a head, and a norm of its own for each head."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, filled, for_layers, stacked
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = llama_like.LAYER, llama_like.OURS
TABLE = {
    **llama_like.TABLE,
    "final_norm.bias": "norm.bias",
    OURS + "attention_norm.bias": LAYER + "input_layernorm.bias",
    OURS + "ff_norm.bias": LAYER + "post_attention_layernorm.bias",
}


def config_from(keys: Keys) -> ModelConfig:
    sizes = llama_like.sizes(keys)
    return ModelConfig(
        **{**sizes, "norm_eps": keys.number("layer_norm_eps", 1e-5)},
        norm="layernorm",
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"], part=0.25),
        parallel="one_norm" if keys.flag("use_parallel_residual", False) else "none",
        qk_norm="heads" if keys.flag("qk_layernorm", False) else "none",
        qkv_bias=keys.flag("use_qkv_bias", False),
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    """The norms of heads are one tensor each, and have no biases."""
    table = dict(TABLE)
    for part, heads in (("q", config.n_heads), ("k", config.n_kv_heads)):
        norms = (f"{LAYER}self_attn.{part}_layernorm.norms.{h}.weight" for h in range(heads))
        table[f"{OURS}attention.{part}_norm.weight"] = stacked(*norms)
        table[f"{OURS}attention.{part}_norm.bias"] = filled(0.0, heads, config.head_dim)
    return for_layers(table, config.n_layers)


FAMILY = Family("stablelm", ("StableLmForCausalLM", "StableLmModel"), config_from, tensors)
