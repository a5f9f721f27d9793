"""MPT: ALiBi, no biases at all, query, key and value fused one after the other."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys, check_plain
from edgeformer.nn.families.recipe import Recipe, for_layers

LAYER, OURS = "blocks.{i}.", "blocks.{i}."
TABLE: dict[str, Recipe | str] = {
    "embedding.weight": "wte.weight",
    "final_norm.weight": "norm_f.weight",
    "head.weight": "lm_head.weight",
    OURS + "attention_norm.weight": LAYER + "norm_1.weight",
    OURS + "ff_norm.weight": LAYER + "norm_2.weight",
    OURS + "attention.qkv.weight": LAYER + "attn.Wqkv.weight",
    OURS + "attention.out.weight": LAYER + "attn.out_proj.weight",
    OURS + "ff.up.weight": LAYER + "ffn.up_proj.weight",
    OURS + "ff.down.weight": LAYER + "ffn.down_proj.weight",
}


def config_from(keys: Keys) -> ModelConfig:
    keys.irrelevant("emb_pdrop", "embedding_fraction", "learned_pos_emb", "tokenizer_name")
    keys.only("no_bias", True)
    keys.only("logit_scale")
    keys.only("norm_type", "low_precision_layernorm", "layernorm")
    width = keys.integer("d_model", also="hidden_size")
    attention = Keys(keys.table("attn_config") or {}, f"{keys.where}: attn_config")
    check_plain(attention)
    attention.irrelevant("attn_pdrop")
    for name, *allowed in (
        ("alibi_bias_max", 8, 8.0),  # transformers computes any other as 8 too
        ("attn_type", "multihead_attention"),
        ("clip_qkv", 0, 0.0),
        ("qk_ln", False),
        ("prefix_lm", False),
        ("attn_uses_sequence_id", False),
        ("alibi", True),
    ):
        attention.only(name, *allowed)
    config = ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("n_layers", also="num_hidden_layers"),
        n_heads=keys.integer("n_heads", also="num_attention_heads"),
        d_ff=keys.integer("expansion_ratio", 4) * width,
        max_positions=keys.integer("max_seq_len", 2048),
        position="alibi",
        norm="layernorm",
        norm_bias=False,
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        feed_forward="gelu",
        attention_scale=attention.number("softmax_scale", None),
        tie_embeddings=keys.flag("tie_word_embeddings", True),
    )
    attention.finish()
    return config


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family(
    "mpt",
    ("MptForCausalLM", "MPTForCausalLM", "MptModel"),
    config_from,
    tensors,
    prefix="transformer.",
    embedding="wte.weight",
)
