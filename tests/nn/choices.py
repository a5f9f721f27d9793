"""One tiny config for each choice of a `ModelConfig`, and models whose every number is random.

The export tests take the same list: what is a choice here must survive the graph.
"""

import dataclasses

import torch

from edgeformer.nn.config import ModelConfig, Rope, RopeScaling
from edgeformer.nn.decoder import Decoder

# Untied: a random model that has its embedding as head repeats the token that it has just read.
PLAIN = ModelConfig(
    vocab_size=96,
    d_model=32,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    d_ff=48,
    max_positions=80,
    tie_embeddings=False,
)


def _with(**changes) -> ModelConfig:
    return dataclasses.replace(PLAIN, **changes)


def _heads(**changes) -> ModelConfig:
    return _with(**{"n_kv_heads": None, "head_dim": None, **changes})


def _scaled(**scaling) -> ModelConfig:
    return _with(rope=Rope(theta=500.0, scaling=RopeScaling(**scaling)))


CHOICES = {
    # heads
    "mha": _heads(),
    "gqa": PLAIN,
    "mqa": _with(n_kv_heads=1),
    "wide-heads": _with(head_dim=12),
    "narrow-heads": _with(head_dim=6),
    # positions
    "rope-partial": _with(head_dim=12, rope=Rope(width=4)),
    "rope-linear": _scaled(kind="linear", factor=4.0),
    "rope-dynamic": _scaled(kind="dynamic", factor=4.0, original_max_positions=20),
    "rope-llama3": _scaled(
        kind="llama3", factor=8.0, original_max_positions=20, high_freq_factor=3.0
    ),
    "rope-yarn": _scaled(
        kind="yarn", factor=4.0, original_max_positions=20, beta_fast=4.0, beta_slow=0.5
    ),
    "rope-longrope": _scaled(
        kind="longrope",
        factor=4.0,
        original_max_positions=20,
        short_factor=(1.0, 1.1, 1.2, 1.3),
        long_factor=(1.5, 2.0, 3.0, 5.0),
    ),
    "rope-two-thetas": _with(
        n_layers=3,
        rope=Rope(theta=1e6, scaling=RopeScaling("linear", factor=8.0)),
        local_rope=Rope(theta=100.0, width=4),
        rope_layers=("local", "global", "local"),
        window=(6, None, 6),
    ),
    "rope-not-in-all-layers": _with(n_layers=3, rope_layers=("global", "none", "global")),
    "learned": _with(position="learned"),
    "learned-offset": _with(position="learned", position_offset=2),
    "sinusoidal": _with(position="sinusoidal"),
    "alibi": _heads(position="alibi"),
    "alibi-gqa": _with(position="alibi", window=(None, 9)),
    "alibi-6-heads": _heads(position="alibi", n_heads=6, head_dim=8),
    "alibi-scaled": _with(position="alibi", alibi_scale=0.5),
    "alibi-bfloat16": _heads(
        position="alibi", n_heads=6, head_dim=8, window=(None, 9), alibi_bfloat16=True
    ),
    "position-none": _with(position="none"),
    # norms
    "rmsnorm-plus-one": _with(norm_plus_one=True),
    "layernorm": _with(norm="layernorm"),
    "layernorm-no-bias": _with(norm="layernorm", norm_bias=False),
    "norm-post": _with(norm="layernorm", norm_placement="post"),
    "norm-sandwich": _with(norm_placement="sandwich"),
    "norm-output": _with(norm_placement="output"),
    "norm-on-embedding": _with(embedding_norm=True),
    # feed-forward
    "geglu": _with(feed_forward="geglu"),
    "geglu-tanh": _with(feed_forward="geglu_tanh"),
    "gelu": _with(feed_forward="gelu"),
    "gelu-tanh": _with(feed_forward="gelu_tanh"),
    "relu": _with(feed_forward="relu"),
    # attention
    "window": _with(window=5),
    "window-1": _with(window=(1, 7)),
    "qk-norm-head": _with(qk_norm="head"),
    "qk-norm-full": _with(qk_norm="full"),
    "qk-norm-heads": _with(qk_norm="heads", norm="layernorm"),
    "attention-scale": _with(attention_scale=0.2),
    "attention-soft-cap": _with(attention_soft_cap=1.5, window=(None, 5)),
    "qkv-bias": _with(qkv_bias=True),
    "all-biases": _with(qkv_bias=True, attention_out_bias=True, ff_bias=True),
    # residual, embedding, head
    "parallel-one-norm": _with(parallel="one_norm"),
    "parallel-two-norms": _with(parallel="two_norms"),
    "tied": _with(tie_embeddings=True),
    "tied-head-bias": _with(tie_embeddings=True, head_bias=True),
    "head-bias": _with(head_bias=True),
    "logit-soft-cap": _with(logit_soft_cap=2.0),
    "multipliers": _with(embedding_multiplier=3.0, residual_multiplier=0.5, logit_multiplier=0.25),
    "dropout": _with(dropout=0.5),
    # several at once, as the families have them
    "like-gpt2": _heads(
        tie_embeddings=True,
        position="learned",
        norm="layernorm",
        feed_forward="gelu_tanh",
        ff_bias=True,
        qkv_bias=True,
        attention_out_bias=True,
    ),
    "like-gemma": _with(
        n_layers=3,
        head_dim=12,
        norm_plus_one=True,
        norm_placement="sandwich",
        feed_forward="geglu_tanh",
        qk_norm="head",
        local_rope=Rope(theta=100.0),
        rope_layers=("local", "local", "global"),
        window=(6, 6, None),
        attention_scale=0.3,
        attention_soft_cap=5.0,
        logit_soft_cap=4.0,
        embedding_multiplier=32**0.5,
    ),
    "like-phi": _heads(
        rope=Rope(width=4),
        norm="layernorm",
        feed_forward="gelu_tanh",
        ff_bias=True,
        qkv_bias=True,
        attention_out_bias=True,
        parallel="one_norm",
        head_bias=True,
    ),
}


def random_decoder(config: ModelConfig, seed: int = 0, std: float = 0.3) -> Decoder:
    """A decoder in evaluation mode whose norms and biases are random too, so that each counts."""
    generator = torch.Generator().manual_seed(seed)
    decoder = Decoder(config)
    decoder.reset_parameters(std, generator)
    with torch.no_grad():
        for name, p in decoder.named_parameters():
            if "norm" in name or name.endswith("bias"):
                p.add_(torch.randn(p.shape, generator=generator), alpha=0.2)
    return decoder.eval()


# Seeds with which a greedy run of 64 tokens after PROMPT visits at least 16 different ones
# (asserted in test_step.py): a model that repeats one token would hide most faults.
SEEDS = {
    "sinusoidal": 2,
    "norm-output": 0,
    "window-1": 2,
    "qk-norm-heads": 3,
    "all-biases": 0,
    "head-bias": 0,
    "like-gpt2": 4,
    "like-phi": 3,
}
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)


def choice_decoder(name: str) -> Decoder:
    """The random model of one entry of `CHOICES`."""
    return random_decoder(CHOICES[name], SEEDS.get(name, 1))
