"""OPT and Galactica: learned positions from row 2 on; the 350M is post-norm, with projections."""

from __future__ import annotations

from typing import Any

import torch

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, filled, for_layers, made, rows

LAYER, OURS = "layers.{i}.", "blocks.{i}."
NORMS = {
    "final_norm": "final_layer_norm",
    OURS + "attention_norm": LAYER + "self_attn_layer_norm",
    OURS + "ff_norm": LAYER + "final_layer_norm",
}


def config_from(keys: Keys) -> ModelConfig:
    """A projected embedding is folded into the embedding and the head, which are then two."""
    width, bias = keys.integer("hidden_size"), keys.flag("enable_bias", True)
    keys.only("_remove_final_layer_norm", False)
    keys.irrelevant("layerdrop")
    keys.flag("layer_norm_elementwise_affine", True)
    tied = keys.flag("tie_word_embeddings", True)
    narrow = keys.integer("word_embed_proj_dim", width) != width
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=keys.integer("num_attention_heads"),
        d_ff=keys.integer("ffn_dim"),
        max_positions=keys.integer("max_position_embeddings"),
        position="learned",
        position_offset=2,
        norm="layernorm",
        norm_placement="pre" if keys.flag("do_layer_norm_before", True) else "post",
        feed_forward=keys.choice("activation_function", PLAIN_ACTIVATIONS, "relu"),
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=bias,
        tie_embeddings=tied and not narrow,
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    table: dict[str, Recipe | str] = {
        "embedding.weight": "embed_tokens.weight",
        "position_embedding.weight": "embed_positions.weight",
        "head.weight": "lm_head.weight",
    }
    for kind in ("weight", "bias"):
        attention = [LAYER + f"self_attn.{part}_proj.{kind}" for part in ("q", "k", "v")]
        table |= {
            OURS + f"attention.qkv.{kind}": rows(*attention),
            OURS + f"attention.out.{kind}": LAYER + f"self_attn.out_proj.{kind}",
            OURS + f"ff.up.{kind}": LAYER + f"fc1.{kind}",
            OURS + f"ff.down.{kind}": LAYER + f"fc2.{kind}",
        }
        constant = filled(1.0 if kind == "weight" else 0.0, config.d_model)
        affine = keys.get("layer_norm_elementwise_affine", True)
        for ours, theirs in NORMS.items():
            table[f"{ours}.{kind}"] = f"{theirs}.{kind}" if affine else constant
    if keys.get("word_embed_proj_dim") not in (None, config.d_model):
        _fold_projections(table, keys.get("tie_word_embeddings", True))
    return for_layers(table, config.n_layers)


def _fold_projections(table: dict[str, Recipe | str], tied: bool) -> None:
    def widened(embedding: torch.Tensor, project_in: torch.Tensor) -> torch.Tensor:
        return embedding @ project_in.t()  # [vocab, narrow] -> [vocab, d_model]

    def read_through(head: torch.Tensor, project_out: torch.Tensor) -> torch.Tensor:
        return head @ project_out  # head(project_out(x)) as one product

    head = "embed_tokens.weight" if tied else "lm_head.weight"
    table["embedding.weight"] = made(widened, "embed_tokens.weight", "project_in.weight")
    table["head.weight"] = made(read_through, head, "project_out.weight")


FAMILY = Family(
    "opt", ("OPTForCausalLM", "OPTModel"), config_from, tensors, prefix="model.decoder."
)
