"""BLOOM: ALiBi, a norm on the embedding, query, key and value fused head by head."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, fused_by_head

LAYER, OURS = "h.{i}.", "blocks.{i}."
TRAINED_LENGTH = 2048  # of the published models; ALiBi itself has no end


def config_from(keys: Keys) -> ModelConfig:
    keys.irrelevant(
        "slow_but_exact", "unk_token_id", "masked_softmax_fusion", "bias_dropout_fusion"
    )
    keys.irrelevant(
        "attention_softmax_in_fp32", "skip_bias_add", "skip_bias_add_qkv", "offset_alibi"
    )
    keys.only("apply_residual_connection_post_layernorm", False)
    width = keys.integer("hidden_size", also="n_embed")
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("n_layer", also="num_hidden_layers"),
        n_heads=keys.integer("n_head", also="num_attention_heads"),
        d_ff=4 * width,
        max_positions=keys.integer("seq_length", TRAINED_LENGTH),
        position="alibi",
        norm="layernorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        embedding_norm=True,
        feed_forward="gelu_tanh",
        qkv_bias=True,
        attention_out_bias=True,
        ff_bias=True,
        tie_embeddings=keys.flag("tie_word_embeddings", True),
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    table: dict[str, Recipe | str] = {
        "embedding.weight": "word_embeddings.weight",
        "head.weight": "lm_head.weight",
    }
    for kind in ("weight", "bias"):
        fused = f"{LAYER}self_attention.query_key_value.{kind}"
        table |= {
            f"embedding_norm.{kind}": f"word_embeddings_layernorm.{kind}",
            f"final_norm.{kind}": f"ln_f.{kind}",
            OURS + f"attention_norm.{kind}": LAYER + f"input_layernorm.{kind}",
            OURS + f"ff_norm.{kind}": LAYER + f"post_attention_layernorm.{kind}",
            OURS + f"attention.qkv.{kind}": fused_by_head(config.n_heads, fused),
            OURS + f"attention.out.{kind}": LAYER + f"self_attention.dense.{kind}",
            OURS + f"ff.up.{kind}": LAYER + f"mlp.dense_h_to_4h.{kind}",
            OURS + f"ff.down.{kind}": LAYER + f"mlp.dense_4h_to_h.{kind}",
        }
    return for_layers(table, config.n_layers)


FAMILY = Family(
    "bloom",
    ("BloomForCausalLM", "BloomModel"),
    config_from,
    tensors,
    prefix="transformer.",
    embedding="word_embeddings.weight",
)
