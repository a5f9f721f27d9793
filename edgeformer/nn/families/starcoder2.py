"""StarCoder2: grouped keys, LayerNorm, biases and a plain GELU feed-forward."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import PLAIN_ACTIVATIONS, Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.recipe import Recipe, for_layers
from edgeformer.nn.families.rope_keys import rope_from

LAYER, OURS = llama_like.LAYER, llama_like.OURS
TABLE = dict(llama_like.TABLE)
TABLE |= {
    "final_norm.bias": "norm.bias",
    OURS + "attention_norm.bias": LAYER + "input_layernorm.bias",
    OURS + "ff_norm.bias": LAYER + "post_attention_layernorm.bias",
}
for _kind in ("weight", "bias"):
    TABLE[f"{OURS}ff.up.{_kind}"] = f"{LAYER}mlp.c_fc.{_kind}"
    TABLE[f"{OURS}ff.down.{_kind}"] = f"{LAYER}mlp.c_proj.{_kind}"


def config_from(keys: Keys) -> ModelConfig:
    keys.irrelevant("residual_dropout", "embedding_dropout")
    # left over in the published configs; hidden_act and norm_epsilon are what counts
    keys.irrelevant("activation_function", "layer_norm_epsilon")
    keys.irrelevant("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32")
    keys.only("scale_attn_weights", True)
    keys.only("mlp_type", "default")
    keys.only("norm_type", "layer_norm")
    width, heads = keys.integer("hidden_size"), keys.integer("num_attention_heads")
    head_dim, bias = keys.integer("head_dim", width // heads), keys.flag("use_bias", True)
    max_positions = keys.integer("max_position_embeddings", 4096)
    return ModelConfig(
        vocab_size=keys.integer("vocab_size"),
        d_model=width,
        n_layers=keys.layers("num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=keys.integer("num_key_value_heads", 2),
        head_dim=head_dim,
        d_ff=keys.integer("intermediate_size"),
        max_positions=max_positions,
        norm="layernorm",
        norm_eps=keys.number("norm_epsilon", 1e-5),
        feed_forward=keys.choice("hidden_act", PLAIN_ACTIVATIONS, "gelu_pytorch_tanh"),
        rope=rope_from(keys, head_dim, max_positions),
        window=keys.integer("sliding_window", None),
        qkv_bias=bias,
        attention_out_bias=bias,
        ff_bias=bias,
        tie_embeddings=keys.flag("tie_word_embeddings", True),
    )


def tensors(config: ModelConfig, keys: dict[str, Any]) -> dict[str, Recipe]:
    return for_layers(TABLE, config.n_layers)


FAMILY = Family("starcoder2", ("Starcoder2ForCausalLM", "Starcoder2Model"), config_from, tensors)
