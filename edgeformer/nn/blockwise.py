"""A decoder run block after block over a calibration text: a block can change in between."""

from __future__ import annotations

import torch

from edgeformer.nn.decoder import Decoder, FullAttention
from edgeformer.nn.layers import Block

MOST_AT_ONCE = 8  # sequences of a forward pass


def embedded(decoder: Decoder, ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """[sequences, length] -> [sequences * length, d_model], and the length."""
    positions = torch.arange(ids.shape[1]).repeat(len(ids))
    return decoder.embed(ids.reshape(-1), positions), ids.shape[1]


def run_block(
    decoder: Decoder,
    i: int,
    block: Block,
    x: torch.Tensor,
    length: int,
    cached: torch.dtype | None = None,
) -> torch.Tensor:
    """`block` at the place of the decoder's layer i; x and result [sequences * length, d_model].

    `cached`: the type of a cache that keys and values would come from, the decoder's if None.
    """
    sequences = len(x) // length
    rotary = decoder.rotary(torch.arange(length).repeat(sequences))
    attend = FullAttention(decoder, sequences, length)
    attend.cached = decoder.dtype if cached is None else cached
    return block(x, rotary[decoder.config.layer_rope(i)], attend)
