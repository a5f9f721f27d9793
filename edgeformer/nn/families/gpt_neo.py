"""GPT-Neo: GPT-2 with unscaled scores, plain weights and a window in every other layer."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, rows

LAYER, OURS = "h.{i}.", "blocks.{i}."
ATTENTION = LAYER + "attn.attention."
TABLE: dict[str, Recipe | str] = {
    "embedding.weight": "wte.weight",
    "position_embedding.weight": "wpe.weight",
    "head.weight": "lm_head.weight",
    OURS + "attention.qkv.weight": rows(
        *(ATTENTION + f"{part}_proj.weight" for part in ("q", "k", "v"))
    ),
}
for _kind in ("weight", "bias"):
    TABLE |= {
        f"final_norm.{_kind}": f"ln_f.{_kind}",
        OURS + f"attention_norm.{_kind}": LAYER + f"ln_1.{_kind}",
        OURS + f"ff_norm.{_kind}": LAYER + f"ln_2.{_kind}",
        OURS + f"attention.out.{_kind}": ATTENTION + f"out_proj.{_kind}",
        OURS + f"ff.up.{_kind}": LAYER + f"mlp.c_fc.{_kind}",
        OURS + f"ff.down.{_kind}": LAYER + f"mlp.c_proj.{_kind}",
    }


def config_from(keys: Keys) -> ModelConfig:
    keys.irrelevant("resid_dropout", "embed_dropout", "summary_type", "summary_use_proj")
    keys.irrelevant("summary_activation", "summary_proj_to_labels", "summary_first_dropout")
    width = keys.integer("hidden_size")
    n_layers = keys.layers("num_layers", also="num_hidden_layers")
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=n_layers,
        n_heads=keys.integer("num_heads", also="num_attention_heads"),
        d_ff=keys.integer("intermediate_size", 4 * width),
        max_positions=keys.integer("max_position_embeddings"),
        position="learned",
        norm="layernorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        feed_forward=keys.choice("activation_function", PLAIN_ACTIVATIONS, "gelu_new"),
        attention_scale=1.0,
        attention_out_bias=True,
        ff_bias=True,
        window=_windows(keys, n_layers),
        tie_embeddings=keys.flag("tie_word_embeddings", True),
    )


def _windows(keys: Keys, n_layers: int) -> tuple[int | None, ...] | None:
    """`attention_types` is run-length coded: [[["global", "local"], 12]]."""
    window = keys.integer("window_size", 256)
    kinds: list[str] = []
    coded = keys.items("attention_types", list) or [[["global", "local"], 12]]
    for item in coded:
        names, times = item if len(item) == 2 else (None, None)
        if not isinstance(names, list) or not isinstance(times, int) or len(names) > n_layers:
            raise keys.error("attention_types", "a list of [[kind, ...], times]")
        kinds += names * min(max(times, 0), n_layers)
        if len(kinds) > n_layers:
            break
    if (keys.items("attention_layers", str) or kinds) != kinds:
        keys.refuse("attention_layers and attention_types do not say the same")
    if len(kinds) != n_layers or not set(kinds) <= {"global", "local"}:
        keys.refuse(f"attention_types gives {kinds[:8]}... for {n_layers} layers")
        return None
    windows = tuple(window if kind == "local" else None for kind in kinds)
    return windows if any(windows) else None


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family(
    "gpt_neo",
    ("GPTNeoForCausalLM", "GPTNeoModel"),
    config_from,
    tensors,
    prefix="transformer.",
    embedding="wte.weight",
    irrelevant=(r"(transformer\.)?h\.\d+\.attn\.attention\.(bias|masked_bias)",),  # masks
)
