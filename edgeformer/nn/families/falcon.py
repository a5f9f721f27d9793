"""Falcon in its three forms: 7B (one key head), 40B and later (key groups), RW (ALiBi)."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig, Rope
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers, fused_by_group
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = "h.{i}.", "blocks.{i}."
TRAINED_LENGTH = 2048


def config_from(keys: Keys) -> ModelConfig:
    keys.only("apply_residual_connection_post_layernorm", False)
    width = keys.integer("hidden_size", also="n_embed")
    heads = keys.integer("num_attention_heads", also="n_head")
    kv_heads = keys.integer("num_kv_heads", heads, also="n_head_kv")
    new, multi_query = keys.flag("new_decoder_architecture", False), keys.flag("multi_query", True)
    if not new:
        kv_heads = 1 if multi_query else heads
    bias, max_positions = keys.flag("bias", False), keys.integer("max_position_embeddings", 2048)
    alibi, head_dim = keys.flag("alibi", False), width // heads
    rope = rope_from(keys, head_dim, max_positions)
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("num_hidden_layers", also="n_layer"),
        n_heads=heads,
        n_kv_heads=kv_heads,
        d_ff=keys.integer("ffn_hidden_size", 4 * width),
        max_positions=max_positions,
        position="alibi" if alibi else "rope",
        rope=Rope() if alibi else rope,
        # Falcon scales ALiBi with the scores, and rounds it
        alibi_scale=head_dim**-0.5 if alibi else 1.0,
        alibi_bfloat16=alibi,
        norm="layernorm",
        norm_eps=keys.number("layer_norm_epsilon", 1e-5),
        feed_forward=keys.choice("activation", PLAIN_ACTIVATIONS, "gelu"),
        parallel=_parallel(keys, new),
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=bias,
        tie_embeddings=keys.flag("tie_word_embeddings", True),
    )


def _parallel(keys: Keys, new: bool) -> str:
    parallel = keys.flag("parallel_attn", True)
    norms = keys.integer("num_ln_in_parallel_attn", 2 if new else 1)
    if new and not parallel:
        keys.refuse("parallel_attn is false with new_decoder_architecture")
    if norms not in (1, 2) or (norms == 2 and not new):
        keys.refuse(f"num_ln_in_parallel_attn is {norms} without new_decoder_architecture")
    if not parallel:
        return "none"
    return "two_norms" if norms == 2 else "one_norm"


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    """Query, key and value are fused by key head, whichever of the three forms it is."""
    two = config.parallel == "two_norms"
    group = config.n_heads // config.n_kv_heads
    table: dict[str, Recipe | str] = {
        "embedding.weight": "word_embeddings.weight",
        "head.weight": "lm_head.weight",
    }
    for kind in ("weight", "bias"):
        fused = f"{LAYER}self_attention.query_key_value.{kind}"
        norm = LAYER + ("ln_attn" if two else "input_layernorm")
        ff_norm = LAYER + ("ln_mlp" if two else "post_attention_layernorm")
        table |= {
            f"final_norm.{kind}": f"ln_f.{kind}",
            OURS + f"attention_norm.{kind}": f"{norm}.{kind}",
            OURS + f"ff_norm.{kind}": f"{ff_norm}.{kind}",
            OURS + f"attention.qkv.{kind}": fused_by_group(config.n_kv_heads, group, fused),
            OURS + f"attention.out.{kind}": LAYER + f"self_attention.dense.{kind}",
            OURS + f"ff.up.{kind}": LAYER + f"mlp.dense_h_to_4h.{kind}",
            OURS + f"ff.down.{kind}": LAYER + f"mlp.dense_4h_to_h.{kind}",
        }
    return for_layers(table, config.n_layers)


FAMILY = Family(
    "falcon",
    ("FalconForCausalLM", "FalconModel"),
    config_from,
    tensors,
    prefix="transformer.",
    embedding="word_embeddings.weight",
)
