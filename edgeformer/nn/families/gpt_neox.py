"""GPT-NeoX and Pythia: query, key and value fused head by head, two norms in parallel."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, fused_by_head
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = "layers.{i}.", "blocks.{i}."


def config_from(keys: Keys) -> ModelConfig:
    width, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    bias = keys.flag("attention_bias", True)
    max_positions = keys.integer("max_position_embeddings", 2048)
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=heads,
        d_ff=keys.integer("intermediate_size"),
        max_positions=max_positions,
        norm="layernorm",
        norm_eps=keys.number("layer_norm_eps", 1e-5),
        feed_forward=keys.choice("hidden_act", PLAIN_ACTIVATIONS, "gelu"),
        rope=rope_from(
            keys,
            width // heads,
            max_positions,
            part=0.25,
            theta_key="rotary_emb_base",
            part_key="rotary_pct",
        ),
        parallel="two_norms" if keys.flag("use_parallel_residual", True) else "none",
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=True,
        tie_embeddings=keys.flag("tie_word_embeddings", False),
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    table: dict[str, Recipe | str] = {
        "embedding.weight": "embed_in.weight",
        "head.weight": "embed_out.weight",
    }
    for kind in ("weight", "bias"):
        fused = f"{LAYER}attention.query_key_value.{kind}"
        table |= {
            f"final_norm.{kind}": f"final_layer_norm.{kind}",
            OURS + f"attention_norm.{kind}": LAYER + f"input_layernorm.{kind}",
            OURS + f"ff_norm.{kind}": LAYER + f"post_attention_layernorm.{kind}",
            OURS + f"attention.qkv.{kind}": fused_by_head(config.n_heads, fused),
            OURS + f"attention.out.{kind}": LAYER + f"attention.dense.{kind}",
            OURS + f"ff.up.{kind}": LAYER + f"mlp.dense_h_to_4h.{kind}",
            OURS + f"ff.down.{kind}": LAYER + f"mlp.dense_4h_to_h.{kind}",
        }
    return for_layers(table, config.n_layers)


FAMILY = Family(
    "gpt_neox",
    ("GPTNeoXForCausalLM", "GPTNeoXModel"),
    config_from,
    tensors,
    prefix="gpt_neox.",
    embedding="embed_in.weight",
    head="embed_out.weight",
    irrelevant=(r"(gpt_neox\.)?layers\.\d+\.attention\.(bias|masked_bias)",),  # causal masks
)
