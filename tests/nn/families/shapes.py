"""Configs of tiny `transformers` models, at least two shapes of each family.

Sizes are odd on purpose: heads that are not width / heads wide, a vocabulary that is no multiple
of anything, one key head and several, and windows and RoPE scalings that bind within 40 tokens.
"""

from typing import Any

import transformers

ABSENT = object()


def common(**changes: Any) -> dict[str, Any]:
    values = {
        "vocab_size": 83,
        "hidden_size": 36,
        "intermediate_size": 50,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    } | changes
    return {key: value for key, value in values.items() if value is not ABSENT}


LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 200.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 4.0,
    "beta_slow": 0.5,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 300.0,
    "short_factor": [1.0, 1.1, 1.3],
    "long_factor": [1.5, 2.5, 6.0],
}
THETA = {"rope_type": "default", "rope_theta": 700.0}

t = transformers
SHAPES: dict[str, Any] = {
    "llama-mha": lambda: t.LlamaConfig(**common(rope_parameters=THETA)),
    "llama-mqa-biases-tied": lambda: t.LlamaConfig(
        **common(
            num_key_value_heads=1,
            head_dim=10,
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            rope_parameters=LLAMA3,
        )
    ),
    "llama-gqa-yarn-gelu": lambda: t.LlamaConfig(
        **common(num_key_value_heads=2, hidden_act="gelu", rope_parameters=YARN)
    ),
    "llama-yarn-mqa": lambda: t.LlamaConfig(
        **common(num_key_value_heads=1, rope_parameters=YARN, tie_word_embeddings=True)
    ),
    "llama-linear": lambda: t.LlamaConfig(
        **common(rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0})
    ),
    "llama-dynamic": lambda: t.LlamaConfig(
        **common(rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0})
    ),
    "mistral-window": lambda: t.MistralConfig(
        **common(num_key_value_heads=2, head_dim=8, sliding_window=7, rope_parameters=THETA)
    ),
    "mistral-no-window-tied": lambda: t.MistralConfig(
        **common(num_key_value_heads=1, sliding_window=None, tie_word_embeddings=True)
    ),
    "qwen2-untied": lambda: t.Qwen2Config(**common(num_key_value_heads=2, rope_parameters=THETA)),
    "qwen2-windows-tied": lambda: t.Qwen2Config(
        **common(
            num_key_value_heads=1,
            use_sliding_window=True,
            sliding_window=5,
            max_window_layers=1,
            tie_word_embeddings=True,
        )
    ),
    "qwen3-wide-heads": lambda: t.Qwen3Config(
        **common(num_key_value_heads=3, head_dim=10, rope_parameters=THETA)
    ),
    "qwen3-biases-window-tied": lambda: t.Qwen3Config(
        **common(
            num_key_value_heads=1,
            head_dim=6,
            attention_bias=True,
            tie_word_embeddings=True,
            use_sliding_window=True,
            sliding_window=6,
            max_window_layers=2,
        )
    ),
    "gemma-mqa": lambda: t.GemmaConfig(**common(num_key_value_heads=1, head_dim=10)),
    "gemma-biases": lambda: t.GemmaConfig(
        **common(num_key_value_heads=3, head_dim=4, attention_bias=True, rope_parameters=THETA)
    ),
    "gemma2-window": lambda: t.Gemma2Config(
        **common(
            num_key_value_heads=2,
            head_dim=8,
            sliding_window=7,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0,
            query_pre_attn_scalar=20,
        )
    ),
    "gemma2-no-caps": lambda: t.Gemma2Config(
        **common(
            num_key_value_heads=1,
            head_dim=6,
            num_hidden_layers=2,
            attn_logit_softcapping=None,
            final_logit_softcapping=None,
            sliding_window=5,
            query_pre_attn_scalar=6,
        )
    ),
    "gemma2-plain-scale": lambda: t.Gemma2Config(
        **common(
            num_key_value_heads=3,
            head_dim=10,
            sliding_window=6,
            attn_logit_softcapping=3.0,
            final_logit_softcapping=2.0,
            query_pre_attn_scalar=10,
        )
    ),
    "gemma3-linear": lambda: t.Gemma3TextConfig(
        **common(
            num_key_value_heads=3,
            head_dim=6,
            num_hidden_layers=6,
            sliding_window=5,
            query_pre_attn_scalar=6,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
        )
    ),
    "gemma3-two-thetas": lambda: t.Gemma3TextConfig(
        **common(
            num_key_value_heads=1,
            head_dim=10,
            num_hidden_layers=4,
            layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"],
            sliding_window=6,
            query_pre_attn_scalar=20,
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
        )
    ),
    "gemma3-default-pattern": lambda: t.Gemma3TextConfig(
        **common(
            num_key_value_heads=2,
            head_dim=8,
            num_hidden_layers=7,
            sliding_window=5,
            query_pre_attn_scalar=8,
            final_logit_softcapping=4.0,
        )
    ),
    "phi": lambda: t.PhiConfig(**common(rope_parameters=dict(THETA, partial_rotary_factor=0.67))),
    "phi-gqa-norms-tied": lambda: t.PhiConfig(
        **common(
            num_key_value_heads=2,
            hidden_size=48,
            qk_layernorm=True,
            tie_word_embeddings=True,
            hidden_act="gelu",
        )
    ),
    "phi3-window": lambda: t.Phi3Config(
        **common(
            num_key_value_heads=2,
            sliding_window=7,
            original_max_position_embeddings=64,
            rope_parameters=THETA,
        )
    ),
    "phi3-long": lambda: t.Phi3Config(
        **common(
            num_key_value_heads=1,
            original_max_position_embeddings=20,
            rope_parameters=LONG,
            tie_word_embeddings=True,
        )
    ),
    "phi3-long-partial": lambda: t.Phi3Config(
        **common(
            hidden_size=48,
            original_max_position_embeddings=20,
            rope_parameters=dict(LONG, partial_rotary_factor=0.75),
        )
    ),
    "gpt2": lambda: t.GPT2Config(vocab_size=83, n_embd=36, n_layer=3, n_head=6, n_positions=64),
    "gpt2-inverse-untied": lambda: t.GPT2Config(
        vocab_size=77,
        n_embd=32,
        n_layer=4,
        n_head=4,
        n_inner=50,
        n_positions=48,
        activation_function="relu",
        scale_attn_by_inverse_layer_idx=True,
        tie_word_embeddings=False,
    ),
    "gpt2-unscaled": lambda: t.GPT2Config(
        vocab_size=61, n_embd=24, n_layer=2, n_head=4, n_positions=40, scale_attn_weights=False
    ),
    "gpt_neo-windows": lambda: t.GPTNeoConfig(
        vocab_size=83,
        hidden_size=36,
        num_layers=4,
        num_heads=6,
        max_position_embeddings=64,
        attention_types=[[["global", "local"], 2]],
        window_size=7,
    ),
    "gpt_neo-local-only": lambda: t.GPTNeoConfig(
        vocab_size=71,
        hidden_size=24,
        num_layers=3,
        num_heads=4,
        intermediate_size=52,
        max_position_embeddings=48,
        attention_types=[[["local"], 3]],
        window_size=5,
        tie_word_embeddings=False,
    ),
    "gpt_neox-parallel": lambda: t.GPTNeoXConfig(
        **common(hidden_size=48, rope_parameters=dict(THETA, partial_rotary_factor=0.25))
    ),
    "gpt_neox-serial-no-bias-tied": lambda: t.GPTNeoXConfig(
        **common(
            use_parallel_residual=False,
            attention_bias=False,
            tie_word_embeddings=True,
            hidden_act="gelu_new",
            rope_parameters=dict(THETA, partial_rotary_factor=1.0),
        )
    ),
    "opt": lambda: t.OPTConfig(
        **common(intermediate_size=ABSENT, ffn_dim=50, word_embed_proj_dim=36)
    ),
    "opt-350m-style": lambda: t.OPTConfig(
        **common(
            intermediate_size=ABSENT, ffn_dim=44, word_embed_proj_dim=20, do_layer_norm_before=False
        )
    ),
    "opt-galactica-style": lambda: t.OPTConfig(
        **common(
            intermediate_size=ABSENT,
            ffn_dim=40,
            enable_bias=False,
            layer_norm_elementwise_affine=False,
            activation_function="gelu",
            tie_word_embeddings=False,
        )
    ),
    "bloom": lambda: t.BloomConfig(vocab_size=83, hidden_size=32, n_layer=3, n_head=4),
    "bloom-six-heads-untied": lambda: t.BloomConfig(
        vocab_size=79, hidden_size=48, n_layer=2, n_head=6, tie_word_embeddings=False
    ),
    "mpt": lambda: t.MptConfig(vocab_size=83, d_model=32, n_layers=3, n_heads=4, max_seq_len=64),
    "mpt-six-heads": lambda: t.MptConfig(
        vocab_size=79,
        d_model=48,
        n_layers=2,
        n_heads=6,
        max_seq_len=64,
        attn_config={"softmax_scale": 0.3},
        tie_word_embeddings=False,
    ),
    "falcon-7b-style": lambda: t.FalconConfig(
        **common(intermediate_size=ABSENT, rope_parameters=THETA)
    ),
    "falcon-40b-style": lambda: t.FalconConfig(
        **common(
            intermediate_size=ABSENT,
            new_decoder_architecture=True,
            num_kv_heads=2,
            bias=True,
            ffn_hidden_size=50,
        )
    ),
    "falcon-40b-one-norm": lambda: t.FalconConfig(
        **common(
            intermediate_size=ABSENT,
            new_decoder_architecture=True,
            num_kv_heads=3,
            num_ln_in_parallel_attn=1,
        )
    ),
    "falcon-rw-style": lambda: t.FalconConfig(
        **common(
            intermediate_size=ABSENT, alibi=True, multi_query=False, parallel_attn=False, bias=True
        )
    ),
    "falcon-rw-parallel-untied": lambda: t.FalconConfig(
        **common(
            intermediate_size=ABSENT,
            hidden_size=32,
            num_attention_heads=16,
            alibi=True,
            multi_query=False,
            tie_word_embeddings=False,
        )
    ),
    "stablelm": lambda: t.StableLmConfig(
        **common(
            hidden_size=48,
            num_key_value_heads=6,
            use_qkv_bias=True,
            rope_parameters=dict(THETA, partial_rotary_factor=0.25),
        )
    ),
    "stablelm-parallel-norms-tied": lambda: t.StableLmConfig(
        **common(
            num_key_value_heads=2,
            qk_layernorm=True,
            use_parallel_residual=True,
            tie_word_embeddings=True,
            rope_parameters=dict(THETA, partial_rotary_factor=0.67),
        )
    ),
    "olmo2": lambda: t.Olmo2Config(**common(num_key_value_heads=2, rope_parameters=THETA)),
    "olmo2-biases-tied": lambda: t.Olmo2Config(
        **common(
            num_key_value_heads=1, attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3
        )
    ),
    "granite": lambda: t.GraniteConfig(
        **common(
            num_key_value_heads=2,
            embedding_multiplier=3.0,
            attention_multiplier=0.3,
            residual_multiplier=0.5,
            logits_scaling=4.0,
            rope_parameters=THETA,
        )
    ),
    "granite-biases-tied": lambda: t.GraniteConfig(
        **common(
            num_key_value_heads=1, attention_bias=True, mlp_bias=True, tie_word_embeddings=True
        )
    ),
    "starcoder2-window": lambda: t.Starcoder2Config(
        **common(num_key_value_heads=2, sliding_window=7, rope_parameters=THETA)
    ),
    "starcoder2-no-bias-untied": lambda: t.Starcoder2Config(
        **common(num_key_value_heads=1, use_bias=False, tie_word_embeddings=False)
    ),
    "smollm3": lambda: t.SmolLM3Config(
        **common(num_key_value_heads=2, num_hidden_layers=5, rope_parameters=THETA)
    ),
    "smollm3-windows-untied": lambda: t.SmolLM3Config(
        **common(
            num_key_value_heads=1,
            no_rope_layers=[0, 1, 0],
            use_sliding_window=True,
            sliding_window=5,
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=False,
        )
    ),
}
