"""Gemma 2: Gemma with norms around each sublayer, soft caps and a window in every other layer."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.gemma import gemma_sizes
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = llama_like.LAYER, llama_like.OURS
TABLE = {
    **llama_like.TABLE,
    OURS + "attention_post_norm.weight": LAYER + "post_attention_layernorm.weight",
    OURS + "ff_norm.weight": LAYER + "pre_feedforward_layernorm.weight",
    OURS + "ff_post_norm.weight": LAYER + "post_feedforward_layernorm.weight",
}


def config_from(keys: Keys) -> ModelConfig:
    sizes = gemma_sizes(keys)
    n_layers = sizes["n_layers"]
    keys.irrelevant("hidden_act")  # written beside hidden_activation, which counts
    return ModelConfig(
        **sizes,
        **capped_sandwich(keys, attention_cap=50.0, logit_cap=30.0),
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]),
        window=llama_like.layer_windows(
            keys,
            n_layers,
            keys.integer("sliding_window", keys.unless_null("sliding_window", 4096)),
            [i % 2 == 0 for i in range(n_layers)],
        ),
    )


def capped_sandwich(
    keys: Keys, attention_cap: float | None, logit_cap: float | None
) -> dict[str, Any]:
    """Norms before and after, and the caps, whose defaults a null key takes away."""
    caps = {}
    for ours, theirs, default in (
        ("attention_soft_cap", "attn_logit_softcapping", attention_cap),
        ("logit_soft_cap", "final_logit_softcapping", logit_cap),
    ):
        caps[ours] = keys.number(theirs, keys.unless_null(theirs, default))
    scalar = keys.number("query_pre_attn_scalar", 256.0)
    if scalar <= 0:
        raise keys.error("query_pre_attn_scalar", "a number above 0")
    return dict(norm_placement="sandwich", attention_scale=scalar**-0.5, **caps)


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family("gemma2", ("Gemma2ForCausalLM", "Gemma2Model"), config_from, tensors)
