"""What a model costs, by formula from its config and without torch."""

from __future__ import annotations

import math
from typing import NamedTuple

from edgeformer.nn.config import GATED, ModelConfig

PRECISIONS = ("fp32", "fp16", "int8", "int4")
NOTES = {
    "parameters": "every stored number; a tied head is counted once, position tables that are "
    "computed (RoPE, sinusoids, ALiBi) not at all",
    "fp32, fp16": "weights: 4 or 2 bytes a parameter",
    "int8": "weights: matrices and embeddings 1 byte an element and a float32 scale a row (output "
    "channel); norms and biases float32",
    "int4": "weights: matrices and embeddings in blocks of 32 along a row, 16 bytes and a float16 "
    "scale a block; norms and biases float32",
    "cache": "2 * layers * tokens * kv_heads * head_dim elements, at full capacity (all tokens of "
    "max_positions)",
    "FLOP/token": "2 * elements of every multiplied matrix, the head too, + 4 * layers * heads * "
    "head_dim * tokens for attention at full capacity; norms, softmax and activations are not "
    "counted",
    "units": "k, M, G are powers of 1000",
}


class Costs(NamedTuple):
    """Exact numbers; `NOTES` says how each is counted."""

    parameters: int
    weight_bytes: dict[str, int]  # by precision
    cache_bytes: dict[str, int]
    flops_per_token: int


def costs(c: ModelConfig) -> Costs:
    tables, products = _tables(c), _products(c)
    matrices = tables + products
    elements = sum(rows * columns for rows, columns in matrices)
    vectors = _vectors(c)
    count = elements + vectors
    int8 = elements + sum(4 * rows for rows, _ in matrices) + 4 * vectors
    blocks = sum(rows * math.ceil(columns / 32) for rows, columns in matrices)
    cached = 2 * c.n_layers * c.max_positions * c.kv_width
    multiplied = sum(rows * columns for rows, columns in products)
    if c.tie_embeddings:
        multiplied += c.vocab_size * c.d_model
    attention = 4 * c.n_layers * c.n_heads * c.head_dim * c.max_positions
    weights = (4 * count, 2 * count, int8, 18 * blocks + 4 * vectors)
    return Costs(
        count,
        dict(zip(PRECISIONS, weights)),
        {"fp32": 4 * cached, "fp16": 2 * cached},
        2 * multiplied + attention,
    )


def _tables(c: ModelConfig) -> list[tuple[int, int]]:
    """Embeddings as (rows, columns): looked up, not multiplied."""
    learned = c.position == "learned"
    positions = [(c.max_positions + c.position_offset, c.d_model)] if learned else []
    return [(c.vocab_size, c.d_model), *positions]


def _products(c: ModelConfig) -> list[tuple[int, int]]:
    """Matrices that every token is multiplied by, as (outputs, inputs)."""
    width = c.n_heads * c.head_dim
    up = 2 * c.d_ff if c.feed_forward in GATED else c.d_ff
    layer = [
        (width + 2 * c.kv_width, c.d_model),
        (c.d_model, width),
        (up, c.d_model),
        (c.d_model, c.d_ff),
    ]
    head = [] if c.tie_embeddings else [(c.vocab_size, c.d_model)]
    return layer * c.n_layers + head


def _vectors(c: ModelConfig) -> int:
    """Numbers in norms and biases."""
    width = c.n_heads * c.head_dim
    both = 2 if c.norm == "layernorm" and c.norm_bias else 1  # weight and bias, or weight
    norms = 1 if c.parallel == "one_norm" else 4 if c.norm_placement == "sandwich" else 2
    qk = {"none": 0, "head": 2 * c.head_dim}.get(c.qk_norm, width + c.kv_width)
    layer = both * (norms * c.d_model + qk)
    if c.qkv_bias:
        layer += width + 2 * c.kv_width
    if c.attention_out_bias:
        layer += c.d_model
    if c.ff_bias:
        layer += (2 * c.d_ff if c.feed_forward in GATED else c.d_ff) + c.d_model
    outside = both * c.d_model * (c.embedding_norm + c.final_norm)
    return c.n_layers * layer + outside + (c.vocab_size if c.head_bias else 0)
