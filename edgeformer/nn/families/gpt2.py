"""GPT-2: learned positions, LayerNorm, biases everywhere, weights stored as [in, out]."""

from __future__ import annotations

from typing import Any

import torch

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, made, transposed

LAYER, OURS = "h.{i}.", "blocks.{i}."
TABLE: dict[str, Recipe | str] = {
    "embedding.weight": "wte.weight",
    "position_embedding.weight": "wpe.weight",
    "head.weight": "lm_head.weight",
}
for _kind in ("weight", "bias"):
    TABLE |= {
        f"final_norm.{_kind}": f"ln_f.{_kind}",
        OURS + f"attention_norm.{_kind}": LAYER + f"ln_1.{_kind}",
        OURS + f"ff_norm.{_kind}": LAYER + f"ln_2.{_kind}",
    }
for _ours, _theirs in (
    ("attention.qkv", "attn.c_attn"),
    ("attention.out", "attn.c_proj"),
    ("ff.up", "mlp.c_fc"),
    ("ff.down", "mlp.c_proj"),
):
    TABLE[f"{OURS}{_ours}.weight"] = transposed(f"{LAYER}{_theirs}.weight")
    TABLE[f"{OURS}{_ours}.bias"] = f"{LAYER}{_theirs}.bias"


def config_from(keys: Keys) -> ModelConfig:
    keys.irrelevant("reorder_and_upcast_attn", "n_ctx")
    keys.irrelevant(*(f"summary_{part}" for part in ("type", "use_proj", "activation")))
    keys.irrelevant("summary_proj_to_labels", "summary_first_dropout")
    keys.flag("scale_attn_by_inverse_layer_idx", False)
    width, heads = keys.integer("n_embd", also="hidden_size"), keys.integer("n_head")
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("n_layer", also="num_hidden_layers"),
        n_heads=heads,
        d_ff=keys.integer("n_inner", 4 * width),
        max_positions=keys.integer("n_positions", also="max_position_embeddings"),
        position="learned",
        norm="layernorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        feed_forward=keys.choice("activation_function", PLAIN_ACTIVATIONS, "gelu_new"),
        attention_scale=None if keys.flag("scale_attn_weights", True) else 1.0,
        qkv_bias=True,
        attention_out_bias=True,
        ff_bias=True,
        tie_embeddings=keys.flag("tie_word_embeddings", True),
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    recipes = for_layers(TABLE, config.n_layers)
    if keys.get("scale_attn_by_inverse_layer_idx"):
        for i in range(config.n_layers):
            _divide_queries(recipes, i, config.d_model)
    return recipes


def _divide_queries(recipes: dict[str, Recipe], layer: int, width: int) -> None:
    """Scores divided by the layer's number: a property of its queries, so of their weights."""

    def divided(w: torch.Tensor) -> torch.Tensor:
        return torch.cat([w[:width] / (layer + 1), w[width:]])

    name = f"blocks.{layer}.attention.qkv"
    (weight,), (bias,) = recipes[name + ".weight"], recipes[name + ".bias"]
    recipes[name + ".weight"] = made(lambda w: divided(w.t()), *weight.names)
    recipes[name + ".bias"] = made(divided, *bias.names)


FAMILY = Family(
    "gpt2",
    ("GPT2LMHeadModel", "GPT2Model"),
    config_from,
    tensors,
    prefix="transformer.",
    embedding="wte.weight",
    irrelevant=(r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)",),  # causal masks
)
