"""Phi-1, 1.5 and 2: one LayerNorm before attention and feed-forward, all with biases."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, rows
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = "layers.{i}.", "blocks.{i}."
TABLE: dict[str, Recipe | str] = {"embedding.weight": "embed_tokens.weight"}
TABLE |= {"head.weight": "lm_head.weight", "head_bias": "lm_head.bias"}
for _kind in ("weight", "bias"):
    TABLE |= {
        f"final_norm.{_kind}": f"final_layernorm.{_kind}",
        OURS + f"attention_norm.{_kind}": LAYER + f"input_layernorm.{_kind}",
        OURS + f"attention.qkv.{_kind}": rows(
            *(LAYER + f"self_attn.{part}_proj.{_kind}" for part in ("q", "k", "v"))
        ),
        OURS + f"attention.q_norm.{_kind}": LAYER + f"self_attn.q_layernorm.{_kind}",
        OURS + f"attention.k_norm.{_kind}": LAYER + f"self_attn.k_layernorm.{_kind}",
        OURS + f"attention.out.{_kind}": LAYER + f"self_attn.dense.{_kind}",
        OURS + f"ff.up.{_kind}": LAYER + f"mlp.fc1.{_kind}",
        OURS + f"ff.down.{_kind}": LAYER + f"mlp.fc2.{_kind}",
    }


def config_from(keys: Keys) -> ModelConfig:
    width, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    head_dim = keys.integer("head_dim", width // heads)
    max_positions = keys.integer("max_position_embeddings", 2048)
    tied = keys.flag("tie_word_embeddings", False)
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=keys.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        d_ff=keys.integer("intermediate_size"),
        max_positions=max_positions,
        norm="layernorm",
        norm_eps=keys.number("layer_norm_eps", 1e-5),
        feed_forward=keys.choice("hidden_act", PLAIN_ACTIVATIONS, "gelu_new"),
        rope=rope_from(keys, head_dim, max_positions, part=0.5),
        parallel="one_norm",
        qk_norm="head" if keys.flag("qk_layernorm", False) else "none",
        qkv_bias=True,
        attention_out_bias=True,
        ff_bias=True,
        head_bias=True,
        tie_embeddings=tied,
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family("phi", ("PhiForCausalLM", "PhiModel"), config_from, tensors)
