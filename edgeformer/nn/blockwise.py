"""A decoder run block after block over a calibration text: a block can change in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from edgeformer.errors import EdgeformerError
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


@contextmanager
def inputs_of(decoder: Decoder, names: Sequence[str]) -> Iterator[dict[str, list[torch.Tensor]]]:
    """What these linear parts are given while they run, [tokens, inputs] each time."""
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    handles = [
        decoder.get_submodule(name).register_forward_pre_hook(
            lambda _, x, name=name: parts[name].append(x[0].detach())
        )
        for name in names
    ]
    try:
        yield parts
    finally:
        for handle in handles:
            handle.remove()


def check_finite(decoder: Decoder) -> None:
    """A checkpoint is refused when it is loaded; a decoder can come from elsewhere."""
    for name, weight in decoder.named_parameters():
        if not torch.isfinite(weight).all():
            raise EdgeformerError(
                f"{name} has numbers that are not finite, which cannot be quantized; repair the "
                "checkpoint"
            )
