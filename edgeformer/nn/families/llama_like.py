"""What the llama family and its many relatives share."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import GATED_ACTIVATIONS
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, rows

LAYER = "layers.{i}."
ATTENTION, OURS = LAYER + "self_attn.", "blocks.{i}."

TABLE: dict[str, Recipe | str] = {
    "embedding.weight": "embed_tokens.weight",
    "final_norm.weight": "norm.weight",
    "head.weight": "lm_head.weight",
    OURS + "attention_norm.weight": LAYER + "input_layernorm.weight",
    OURS + "ff_norm.weight": LAYER + "post_attention_layernorm.weight",
    OURS + "attention.q_norm.weight": ATTENTION + "q_norm.weight",
    OURS + "attention.k_norm.weight": ATTENTION + "k_norm.weight",
    **{
        OURS + f"attention.qkv.{kind}": rows(
            *(ATTENTION + f"{part}_proj.{kind}" for part in ("q", "k", "v"))
        )
        for kind in ("weight", "bias")
    },
    **{OURS + f"attention.out.{kind}": ATTENTION + f"o_proj.{kind}" for kind in ("weight", "bias")},
    **{
        OURS + f"ff.up.{kind}": rows(LAYER + f"mlp.gate_proj.{kind}", LAYER + f"mlp.up_proj.{kind}")
        for kind in ("weight", "bias")
    },
    **{OURS + f"ff.down.{kind}": LAYER + f"mlp.down_proj.{kind}" for kind in ("weight", "bias")},
}


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


def sizes(keys: Keys, activation: str = "hidden_act", tied: bool = False) -> dict[str, Any]:
    """The choices that every relative spells alike."""
    heads = keys.integer("num_attention_heads")
    width = keys.integer("hidden_size")
    return {
        "vocab_size": keys.integer("vocab_size"),
        "d_model": width,
        "n_layers": keys.layers("num_hidden_layers"),
        "n_heads": heads,
        "n_kv_heads": keys.integer("num_key_value_heads", heads),
        "head_dim": keys.integer("head_dim", width // heads),
        "d_ff": keys.integer("intermediate_size"),
        "max_positions": keys.integer("max_position_embeddings"),
        "norm_eps": keys.number("rms_norm_eps", 1e-6),
        "feed_forward": keys.choice(activation, GATED_ACTIVATIONS, "silu"),
        "tie_embeddings": keys.flag("tie_word_embeddings", tied),
    }


def layer_windows(
    keys: Keys, n_layers: int, window: int | None, default: list[bool]
) -> tuple[int | None, ...] | None:
    """`layer_types` where the config has it, else `default`: which layers have the window."""
    types = keys.items("layer_types", str, n_layers)
    known = {"full_attention": False, "sliding_attention": True}
    if types is not None:
        if not set(types) <= set(known):
            keys.refuse(f"layer_types has {sorted(set(types) - set(known))[0]!r}")
            return None
        default = [known[name] for name in types]
    if any(default) and window is None:
        keys.refuse("layer_types has sliding_attention, but sliding_window is not given")
        return None
    return tuple(window if sliding else None for sliding in default) if any(default) else None
