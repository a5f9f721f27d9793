"""Choices of the GPT, OPT, Bloom, MPT, GPT-NeoX, Phi and StarCoder families."""

import functools

import pytest
import transformers as hf

from edgeformer.nn.config import ModelConfig, Rope
from tests.nn.references import LLAMA, OURS, THEIRS, Reference, by_head, check, make, transposed

BIASES = {"qkv_bias": True, "attention_out_bias": True, "ff_bias": True}


def gpt2() -> Reference:
    theirs = hf.GPT2Config(
        vocab_size=80, n_embd=32, n_layer=3, n_head=4, n_positions=64, n_inner=48, bos_token_id=1
    )
    config = ModelConfig(
        **OURS, **BIASES, position="learned", norm="layernorm", feed_forward="gelu_tanh"
    )
    names = {
        "embedding": "transformer.wte",
        "position_embedding": "transformer.wpe",
        "blocks.{i}.attention.qkv": "transformer.h.{i}.attn.c_attn",
        "blocks.{i}.attention.out": "transformer.h.{i}.attn.c_proj",
        "blocks.{i}.ff.up": "transformer.h.{i}.mlp.c_fc",
        "blocks.{i}.ff.down": "transformer.h.{i}.mlp.c_proj",
        "blocks.{i}.attention_norm": "transformer.h.{i}.ln_1",
        "blocks.{i}.ff_norm": "transformer.h.{i}.ln_2",
        "final_norm": "transformer.ln_f",
    }
    breaks = ({"feed_forward": "gelu"}, {"feed_forward": "relu"})
    return Reference(make(hf.GPT2LMHeadModel, theirs), config, names, transposed, breaks)


def gpt1_post_norm() -> Reference:
    theirs = hf.OpenAIGPTConfig(
        vocab_size=80, n_embd=32, n_layer=3, n_head=4, n_positions=64, afn="gelu"
    )
    config = ModelConfig(
        **{**OURS, "d_ff": 128},
        **BIASES,
        position="learned",
        norm="layernorm",
        norm_placement="post",
        feed_forward="gelu_tanh",
    )
    names = {
        "embedding": "transformer.tokens_embed",
        "position_embedding": "transformer.positions_embed",
        "blocks.{i}.attention.qkv": "transformer.h.{i}.attn.c_attn",
        "blocks.{i}.attention.out": "transformer.h.{i}.attn.c_proj",
        "blocks.{i}.ff.up": "transformer.h.{i}.mlp.c_fc",
        "blocks.{i}.ff.down": "transformer.h.{i}.mlp.c_proj",
        "blocks.{i}.attention_norm": "transformer.h.{i}.ln_1",
        "blocks.{i}.ff_norm": "transformer.h.{i}.ln_2",
    }
    return Reference(make(hf.OpenAIGPTLMHeadModel, theirs), config, names, transposed)


def opt_offset() -> Reference:
    theirs = hf.OPTConfig(**THEIRS, ffn_dim=48, word_embed_proj_dim=32)
    config = ModelConfig(
        **OURS,
        **BIASES,
        position="learned",
        position_offset=2,
        norm="layernorm",
        feed_forward="relu",
    )
    layer = "model.decoder.layers.{i}."
    names = {
        "embedding": "model.decoder.embed_tokens",
        "position_embedding": "model.decoder.embed_positions",
        "blocks.{i}.attention.qkv": [layer + f"self_attn.{part}_proj" for part in ("q", "k", "v")],
        "blocks.{i}.attention.out": layer + "self_attn.out_proj",
        "blocks.{i}.ff.up": layer + "fc1",
        "blocks.{i}.ff.down": layer + "fc2",
        "blocks.{i}.attention_norm": layer + "self_attn_layer_norm",
        "blocks.{i}.ff_norm": layer + "final_layer_norm",
        "final_norm": "model.decoder.final_layer_norm",
    }
    breaks = ({"feed_forward": "gelu"}, {"position_offset": 1, "max_positions": 65})
    return Reference(make(hf.OPTForCausalLM, theirs), config, names, breaks=breaks)


def bloom(heads: int = 4) -> Reference:
    width = heads * 8
    theirs = hf.BloomConfig(vocab_size=80, hidden_size=width, n_layer=3, n_head=heads)
    config = ModelConfig(
        **{**OURS, "d_model": width, "d_ff": 4 * width, "n_heads": heads},
        **BIASES,
        position="alibi",
        norm="layernorm",
        embedding_norm=True,
        feed_forward="gelu_tanh",
    )
    layer = "transformer.h.{i}."
    names = {
        "embedding": "transformer.word_embeddings",
        "embedding_norm": "transformer.word_embeddings_layernorm",
        "blocks.{i}.attention.qkv": layer + "self_attention.query_key_value",
        "blocks.{i}.attention.out": layer + "self_attention.dense",
        "blocks.{i}.ff.up": layer + "mlp.dense_h_to_4h",
        "blocks.{i}.ff.down": layer + "mlp.dense_4h_to_h",
        "blocks.{i}.attention_norm": layer + "input_layernorm",
        "blocks.{i}.ff_norm": layer + "post_attention_layernorm",
        "final_norm": "transformer.ln_f",
    }
    change = functools.partial(by_head, heads=heads)
    breaks = ({"position": "none"},)
    return Reference(make(hf.BloomForCausalLM, theirs), config, names, change, breaks)


def bloom_6_heads() -> Reference:
    return bloom(heads=6)


def mpt_no_bias() -> Reference:
    theirs = hf.MptConfig(vocab_size=80, d_model=48, n_layers=3, n_heads=6, max_seq_len=64)
    config = ModelConfig(
        **{**OURS, "d_model": 48, "n_heads": 6, "d_ff": 192},
        position="alibi",
        norm="layernorm",
        norm_bias=False,
        feed_forward="gelu",
    )
    layer = "transformer.blocks.{i}."
    names = {
        "embedding": "transformer.wte",
        "blocks.{i}.attention.qkv": layer + "attn.Wqkv",
        "blocks.{i}.attention.out": layer + "attn.out_proj",
        "blocks.{i}.ff.up": layer + "ffn.up_proj",
        "blocks.{i}.ff.down": layer + "ffn.down_proj",
        "blocks.{i}.attention_norm": layer + "norm_1",
        "blocks.{i}.ff_norm": layer + "norm_2",
        "final_norm": "transformer.norm_f",
    }
    breaks = ({"feed_forward": "gelu_tanh"}, {"position": "none"})
    return Reference(make(hf.MptForCausalLM, theirs), config, names, breaks=breaks)


def neox_two_norms() -> Reference:
    theirs = hf.GPTNeoXConfig(
        **THEIRS,
        hidden_act="gelu",
        use_parallel_residual=True,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    )
    config = ModelConfig(
        **OURS,
        **BIASES,
        rope=Rope(theta=500.0, width=4),
        norm="layernorm",
        feed_forward="gelu",
        parallel="two_norms",
        tie_embeddings=False,
    )
    layer = "gpt_neox.layers.{i}."
    names = {
        "embedding": "gpt_neox.embed_in",
        "blocks.{i}.attention.qkv": layer + "attention.query_key_value",
        "blocks.{i}.attention.out": layer + "attention.dense",
        "blocks.{i}.ff.up": layer + "mlp.dense_h_to_4h",
        "blocks.{i}.ff.down": layer + "mlp.dense_4h_to_h",
        "blocks.{i}.attention_norm": layer + "input_layernorm",
        "blocks.{i}.ff_norm": layer + "post_attention_layernorm",
        "final_norm": "gpt_neox.final_layer_norm",
        "head": "lm_head",
    }
    breaks = ({"parallel": "none"}, {"rope": Rope(theta=500.0)}, {"feed_forward": "gelu_tanh"})
    return Reference(make(hf.GPTNeoXForCausalLM, theirs), config, names, by_head, breaks)


def phi_one_norm() -> Reference:
    theirs = hf.PhiConfig(
        **THEIRS,
        layer_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5},
    )
    config = ModelConfig(
        **OURS,
        **BIASES,
        rope=Rope(theta=500.0, width=4),
        norm="layernorm",
        feed_forward="gelu_tanh",
        parallel="one_norm",
        tie_embeddings=False,
        head_bias=True,
    )
    layer = "model.layers.{i}."
    names = {
        **LLAMA,
        "blocks.{i}.attention.out": layer + "self_attn.dense",
        "blocks.{i}.ff.up": layer + "mlp.fc1",
        "blocks.{i}.ff.down": layer + "mlp.fc2",
        "final_norm": "model.final_layernorm",
        "head_bias": "lm_head.bias",
    }
    return Reference(make(hf.PhiForCausalLM, theirs), config, names)


def starcoder2_window() -> Reference:
    theirs = hf.Starcoder2Config(**THEIRS, num_key_value_heads=2, sliding_window=7, use_bias=True)
    config = ModelConfig(
        **OURS,
        **BIASES,
        n_kv_heads=2,
        norm="layernorm",
        feed_forward="gelu_tanh",
        window=7,
    )
    layer = "model.layers.{i}."
    names = {
        **LLAMA,
        "blocks.{i}.ff.up": layer + "mlp.c_fc",
        "blocks.{i}.ff.down": layer + "mlp.c_proj",
    }
    breaks = ({"window": None},)
    return Reference(make(hf.Starcoder2ForCausalLM, theirs), config, names, breaks=breaks)


FAMILIES = (
    gpt2,
    gpt1_post_norm,
    opt_offset,
    bloom,
    bloom_6_heads,
    mpt_no_bias,
    neox_two_norms,
    phi_one_norm,
    starcoder2_window,
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_logits_equal_those_of_transformers_and_a_wrong_choice_shows(family):
    check(family())
