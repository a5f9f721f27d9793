"""A smaller decoder from a larger one, block after block, on a calibration text."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from edgeformer.errors import EdgeformerError
from edgeformer.nn.blockwise import MOST_AT_ONCE, embedded, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Block
from edgeformer.nn.prune.cut import copied, cut_attention, cut_ff
from edgeformer.nn.prune.eliminate import eliminate
from edgeformer.nn.prune.layers import layers_to_keep
from edgeformer.nn.prune.removal import Removal, pruned_config

CHOOSING_LAYERS = 2048  # tokens of the calibration text; each layer that goes reads them five times

States = list[tuple[torch.Tensor, int]]  # [sequences * length, d_model] and the length


class Kept(NamedTuple):
    """What stayed, in the old numbering; `groups` and the errors have an entry a kept layer.

    An error is the mean square of what a product lost, as a share, after the others made up for it.
    """

    layers: list[int]
    groups: list[list[int]]
    neurons: list[list[int]]
    attention_errors: list[float]
    ff_errors: list[float]


@torch.no_grad()
def prune_decoder(
    decoder: Decoder,
    removal: Removal,
    ids: torch.Tensor,
    progress: Callable[[str], None] = lambda what: None,
) -> tuple[Decoder, Kept]:
    """A new decoder with tensors of its own; the old one stays as it is.

    ids: int64 [sequences, length], the calibration text. Each block is cut on what the cut blocks
    before it give.
    """
    sample = ids[: max(1, CHOOSING_LAYERS // ids.shape[1])]
    layers = layers_to_keep(decoder, removal.layers, sample, progress)
    with torch.device("meta"):
        made = Decoder(pruned_config(decoder.config, removal, layers))
    outside = {k: v for k, v in decoder.state_dict().items() if not k.startswith("blocks.")}
    outside = {k: v.detach().clone() for k, v in outside.items()}
    made.load_state_dict(outside, strict=False, assign=True)
    made.add_tables()
    kept = Kept(layers, [], [], [], [])
    needed = removal.kv or removal.ff
    states = [embedded(decoder, part) for part in ids.split(MOST_AT_ONCE)] if needed else []
    for i, old in enumerate(layers):
        progress(f"layer {i + 1} of {len(layers)}")
        _prune_block(decoder, old, made, i, removal, states, kept)
        states = [(run_block(made, i, made.blocks[i], x, n), n) for x, n in states]
    return made.eval(), kept


def _prune_block(
    decoder: Decoder, old: int, made: Decoder, i: int, removal: Removal, states: States, kept: Kept
) -> None:
    c, was, block = made.config, decoder.blocks[old], made.blocks[i]
    for name, module in was.named_children():
        if name not in ("attention", "ff"):
            setattr(block, name, copied(module, getattr(block, name)))
    if removal.kv:
        out, size = was.attention.out, was.attention.out.in_features // was.attention.kv_heads
        moments = _moments(out, decoder, old, was, states)
        found = eliminate(out.weight, out.bias, moments, size, removal.kv)
        block.attention = cut_attention(was.attention, c, i, found.kept, found.weight, found.bias)
        kept.groups.append(found.kept)
        kept.attention_errors.append(found.error)
    else:
        block.attention = copied(was.attention, block.attention)
        kept.groups.append(list(range(c.n_kv_heads)))
        kept.attention_errors.append(0.0)
    if removal.ff:
        narrow, down = block.ff, was.ff.down
        block.ff = was.ff  # the old width behind the new attention, to see what comes to `down`
        moments = _moments(down, made, i, block, states)
        block.ff = narrow
        found = eliminate(down.weight, down.bias, moments, 1, removal.ff)
        block.ff = cut_ff(was.ff, c, found.kept, found.weight, found.bias)
        kept.neurons.append(found.kept)
        kept.ff_errors.append(found.error)
    else:
        block.ff = copied(was.ff, block.ff)
        kept.neurons.append(list(range(c.d_ff)))
        kept.ff_errors.append(0.0)


def _moments(
    linear: nn.Linear, decoder: Decoder, i: int, block: Block, states: States
) -> torch.Tensor:
    """Sum of h h^T over all inputs of a linear part as the block runs; h ends in 1 with a bias."""
    size = linear.in_features + (linear.bias is not None)
    total = torch.zeros(size, size)

    def add(_: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        h = inputs[0].reshape(-1, linear.in_features)
        h = h if linear.bias is None else torch.cat([h, torch.ones(len(h), 1)], 1)
        total.addmm_(h.t(), h)

    handle = linear.register_forward_pre_hook(add)
    try:
        for x, length in states:
            run_block(decoder, i, block, x, length)
    finally:
        handle.remove()
    if not torch.isfinite(total).all():
        raise EdgeformerError(
            f"layer {i} gives values that are no numbers on the calibration text, so that nothing "
            "can be said about its parts; is the checkpoint whole?"
        )
    return total
