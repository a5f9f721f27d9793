"""llama.cpp's architectures: how their metadata and tensors correspond to Hugging Face's.

A GGUF is seen as the Hugging Face checkpoint that it was converted from, so that a family is
described once. What the conversion did to a tensor is undone when it is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

# The end of a metadata key, after "llama." and the like -> the key of config.json.
SIZES = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "vocab_size": "vocab_size",
}
RMS = {"attention.layer_norm_rms_epsilon": "rms_norm_eps"}
ROPE = {"rope.freq_base": "rope_theta"}
HEAD = {"attention.key_length": "head_dim"}
WINDOW = {"attention.sliding_window": "sliding_window"}
LLAMA = SIZES | RMS | ROPE | HEAD

LAYER, THEIRS = "blk.{i}.", "model.layers.{i}."
ATTENTION = {
    LAYER + "attn_norm": THEIRS + "input_layernorm",
    LAYER + "attn_q": THEIRS + "self_attn.q_proj",
    LAYER + "attn_k": THEIRS + "self_attn.k_proj",
    LAYER + "attn_v": THEIRS + "self_attn.v_proj",
    LAYER + "attn_output": THEIRS + "self_attn.o_proj",
    LAYER + "attn_q_norm": THEIRS + "self_attn.q_norm",
    LAYER + "attn_k_norm": THEIRS + "self_attn.k_norm",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
GATED = {
    LAYER + "ffn_norm": THEIRS + "post_attention_layernorm",
    LAYER + "ffn_gate": THEIRS + "mlp.gate_proj",
    LAYER + "ffn_up": THEIRS + "mlp.up_proj",
    LAYER + "ffn_down": THEIRS + "mlp.down_proj",
}
LLAMA_NAMES = ATTENTION | GATED
POST_NORMS = {
    LAYER + "post_attention_norm": THEIRS + "post_attention_layernorm",
    LAYER + "post_ffw_norm": THEIRS + "post_feedforward_layernorm",
}
GEMMA2_NAMES = LLAMA_NAMES | POST_NORMS | {LAYER + "ffn_norm": THEIRS + "pre_feedforward_layernorm"}


def _transformer(layer: str, **names: str) -> dict[str, str]:
    """Names below `transformer.`, the layer's own after `layer`; `output` is the head."""
    table = {"output": "lm_head"}
    for ours, theirs in names.items():
        if ours.startswith(("token_embd", "position_embd", "output")):
            table[ours] = "transformer." + theirs
        else:
            table[LAYER + ours] = f"transformer.{layer}.{{i}}.{theirs}"
    return table


GPT2_NAMES = _transformer(
    "h",
    token_embd="wte",
    position_embd="wpe",
    output_norm="ln_f",
    attn_norm="ln_1",
    attn_qkv="attn.c_attn",
    attn_output="attn.c_proj",
    ffn_norm="ln_2",
    ffn_up="mlp.c_fc",
    ffn_down="mlp.c_proj",
)
BLOOM_NAMES = _transformer(
    "h",
    token_embd="word_embeddings",
    token_embd_norm="word_embeddings_layernorm",
    output_norm="ln_f",
    attn_norm="input_layernorm",
    attn_qkv="self_attention.query_key_value",
    attn_output="self_attention.dense",
    ffn_norm="post_attention_layernorm",
    ffn_up="mlp.dense_h_to_4h",
    ffn_down="mlp.dense_4h_to_h",
)
MPT_NAMES = _transformer(
    "blocks",
    token_embd="wte",
    output_norm="norm_f",
    attn_norm="norm_1",
    attn_qkv="attn.Wqkv",
    attn_output="attn.out_proj",
    ffn_norm="norm_2",
    ffn_up="ffn.up_proj",
    ffn_down="ffn.down_proj",
)
NEOX_NAMES = {
    **{
        name: theirs.replace("transformer.h.", "gpt_neox.layers.").replace("self_", "")
        for name, theirs in BLOOM_NAMES.items()
        if name.startswith("blk.")
    },
    "token_embd": "gpt_neox.embed_in",
    "output_norm": "gpt_neox.final_layer_norm",
    "output": "embed_out",
}
PHI2_NAMES = ATTENTION | {
    "output_norm": "model.final_layernorm",
    LAYER + "attn_output": THEIRS + "self_attn.dense",
    LAYER + "ffn_up": THEIRS + "mlp.fc1",
    LAYER + "ffn_down": THEIRS + "mlp.fc2",
}
PHI3_NAMES = LLAMA_NAMES | {
    LAYER + "attn_qkv": THEIRS + "self_attn.qkv_proj",
    LAYER + "ffn_up": THEIRS + "mlp.gate_up_proj",
}
STARCODER2_NAMES = LLAMA_NAMES | {
    LAYER + "ffn_up": THEIRS + "mlp.c_fc",
    LAYER + "ffn_down": THEIRS + "mlp.c_proj",
}
BLOOM_KEYS = {
    "block_count": "n_layer",
    "context_length": "seq_length",
    "embedding_length": "hidden_size",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "vocab_size": "vocab_size",
}
GPT2_KEYS = {
    "block_count": "n_layer",
    "context_length": "n_positions",
    "embedding_length": "n_embd",
    "feed_forward_length": "n_inner",
    "attention.head_count": "n_head",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "vocab_size": "vocab_size",
}
MPT_KEYS = {
    "block_count": "n_layers",
    "context_length": "max_seq_len",
    "embedding_length": "d_model",
    "attention.head_count": "n_heads",
    "attention.layer_norm_epsilon": "layer_norm_epsilon",
    "vocab_size": "vocab_size",
}
LAYER_NORM = {"attention.layer_norm_epsilon": "layer_norm_eps"}
PARALLEL = {"use_parallel_residual": "use_parallel_residual"}


class Arch(NamedTuple):
    """One architecture.

    `permuted`: query and key rows lie as llama.cpp's own RoPE wants them. `fused` is the order
    of the fused projection before the conversion: by head, or by group of heads. `plus_one`:
    norm weights have a 1 added. `transposed`: weights of a layer were stored as [in, out].
    `bias` is the config key that says whether attention has biases.
    """

    family: str
    keys: dict[str, str]
    names: dict[str, str]
    permuted: bool = False
    fused: str | None = None
    plus_one: bool = False
    transposed: bool = False
    bias: str | None = "attention_bias"
    mlp_bias: bool = False


ARCHS: dict[str, Arch] = {
    "llama": Arch("llama", LLAMA, LLAMA_NAMES, permuted=True, mlp_bias=True),
    "granite": Arch(
        "granite",
        LLAMA
        | {
            "attention.scale": "attention_multiplier",
            "embedding_scale": "embedding_multiplier",
            "residual_scale": "residual_multiplier",
            "logit_scale": "logits_scaling",
        },
        LLAMA_NAMES,
        permuted=True,
        mlp_bias=True,
    ),
    "smollm3": Arch("smollm3", LLAMA, LLAMA_NAMES, permuted=True, mlp_bias=True),
    "qwen2": Arch("qwen2", LLAMA, LLAMA_NAMES, bias=None),
    "qwen3": Arch("qwen3", LLAMA, LLAMA_NAMES),
    "olmo2": Arch("olmo2", LLAMA, LLAMA_NAMES | POST_NORMS),
    "gemma": Arch("gemma", LLAMA, LLAMA_NAMES, plus_one=True),
    "gemma2": Arch(
        "gemma2",
        LLAMA
        | WINDOW
        | {
            "attn_logit_softcapping": "attn_logit_softcapping",
            "final_logit_softcapping": "final_logit_softcapping",
        },
        GEMMA2_NAMES,
        plus_one=True,
    ),
    "gemma3": Arch(
        "gemma3_text",
        LLAMA
        | WINDOW
        | {
            "final_logit_softcapping": "final_logit_softcapping",
            "rope.freq_base_swa": "rope_local_base_freq",
        },
        GEMMA2_NAMES,
        plus_one=True,
    ),
    "phi2": Arch("phi", SIZES | ROPE | LAYER_NORM, PHI2_NAMES, bias=None),
    "phi3": Arch("phi3", LLAMA | WINDOW, PHI3_NAMES, bias=None),
    "gpt2": Arch("gpt2", GPT2_KEYS, GPT2_NAMES, transposed=True, bias=None),
    "gptneox": Arch("gpt_neox", SIZES | ROPE | LAYER_NORM | PARALLEL, NEOX_NAMES, fused="head"),
    "bloom": Arch("bloom", BLOOM_KEYS, BLOOM_NAMES, fused="head", bias=None),
    "mpt": Arch("mpt", MPT_KEYS, MPT_NAMES, bias=None),
    "falcon": Arch(
        "falcon",
        SIZES
        | ROPE
        | {
            "feed_forward_length": "ffn_hidden_size",
            "attention.head_count_kv": "num_kv_heads",
            "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        BLOOM_NAMES,
        fused="group",
        bias="bias",
    ),
    "stablelm": Arch(
        "stablelm", SIZES | ROPE | LAYER_NORM | PARALLEL, LLAMA_NAMES, bias="use_qkv_bias"
    ),
    "starcoder2": Arch(
        "starcoder2",
        SIZES | ROPE | WINDOW | {"attention.layer_norm_epsilon": "norm_epsilon"},
        STARCODER2_NAMES,
        bias="use_bias",
    ),
}
