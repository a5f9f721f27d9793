"""OLMo 2: norms on the output of each sublayer, and over the whole query and key."""

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
    OURS + "attention_norm.weight": LAYER + "post_attention_layernorm.weight",
    OURS + "ff_norm.weight": LAYER + "post_feedforward_layernorm.weight",
}


def config_from(keys: Keys) -> ModelConfig:
    sizes = llama_like.sizes(keys)
    bias = keys.flag("attention_bias", False)
    return ModelConfig(
        **{**sizes, "norm_eps": keys.number("rms_norm_eps", 1e-5)},
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]),
        norm_placement="output",
        qk_norm="full",
        qkv_bias=bias,
        attention_out_bias=bias,
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family("olmo2", ("Olmo2ForCausalLM", "Olmo2Model"), config_from, tensors)
