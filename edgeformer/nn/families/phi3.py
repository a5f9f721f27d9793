"""Phi-3, 3.5 and 4-mini: llama with fused projections and LongRoPE."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = llama_like.LAYER, llama_like.OURS
TABLE = {
    **llama_like.TABLE,
    OURS + "attention.qkv.weight": LAYER + "self_attn.qkv_proj.weight",
    OURS + "ff.up.weight": LAYER + "mlp.gate_up_proj.weight",
}
OLD_NAMES = {"su": "longrope", "yarn": "longrope"}  # in the first Phi-3 configs


def config_from(keys: Keys) -> ModelConfig:
    """The two fused tensors lie as ours do: query, key, value; gate, up."""
    sizes = llama_like.sizes(keys)
    keys.only("attention_bias", False)
    return ModelConfig(
        **{**sizes, "norm_eps": keys.number("rms_norm_eps", 1e-5)},
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"], kinds=OLD_NAMES),
        window=keys.integer("sliding_window", None),
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family("phi3", ("Phi3ForCausalLM", "Phi3Model"), config_from, tensors)
