"""Quantize the matrices of a decoder, block after block, on a calibration text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from edgeformer.errors import EdgeformerError
from edgeformer.nn.blockwise import MOST_AT_ONCE, check_finite, embedded, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Block
from edgeformer.nn.quantize.blocks import Blocks, Format
from edgeformer.nn.quantize.gptq import gptq
from edgeformer.nn.quantize.grid import on_grid
from edgeformer.nn.quantize.search import nearest, searched

METHODS = ("nearest", "searched", "gptq")

Choose = Callable[[str], Format | None]  # by the parameter's name; None: as it is


@torch.no_grad()
def quantize_decoder(
    decoder: Decoder,
    choose: Choose,
    ids: torch.Tensor,
    method: str = "gptq",
    progress: Callable[[str], None] = lambda name: None,
    keep: bool = False,
    grids: bool = False,
) -> dict[str, Blocks]:
    """Blocks by parameter name. The decoder's own weights become what the blocks stand for, or
    with `keep` are what they were: no more than one layer is then in memory twice.

    ids: int64 [sequences, length], the calibration text. Each layer is calibrated on what the
    quantized layers before it give. `method`: "nearest" (no text needed), "searched" (scales by
    the mean square of each input) or "gptq". `grids`: matrices that lie on a grid of as many bits
    already keep that one.
    """
    if method not in METHODS:
        raise EdgeformerError(f"method is {method!r}; known: {', '.join(METHODS)}")
    check_finite(decoder)
    found: dict[str, Blocks] = {}
    c = decoder.config
    text = method != "nearest"
    states = [embedded(decoder, part) for part in ids.split(MOST_AT_ONCE)] if text else []
    for i, block in enumerate(decoder.blocks):
        progress(f"layer {i + 1} of {c.n_layers}")
        linears = _chosen(block, f"blocks.{i}.", choose)
        with _moments(linears.values()) as moments:
            for x, length in states:
                run_block(decoder, i, block, x, length)
        originals = {linear: linear.weight.clone() for linear in linears.values() if keep}
        for name, linear in linears.items():
            format = choose(name)
            own = on_grid(linear.weight, Format(format.bits)) if grids else None
            found[name] = own or _quantized(linear.weight, format, method, moments.get(linear))
            linear.weight.copy_(found[name].dense())
        states = [(run_block(decoder, i, block, x, length), length) for x, length in states]
        for linear, weight in originals.items():
            linear.weight.copy_(weight)
    progress("tables")
    tables = {"embedding.weight": decoder.embedding.weight}
    if not c.tie_embeddings:
        tables["head.weight"] = decoder.head.weight
    for name, weight in tables.items():
        if (format := choose(name)) is not None:
            own = on_grid(weight, Format(format.bits)) if grids else None
            found[name] = own or (nearest if method == "nearest" else searched)(weight, format)
            if not keep:
                weight.copy_(found[name].dense())
    return found


def _chosen(block: Block, prefix: str, choose: Choose) -> dict[str, nn.Linear]:
    """The linear parts of a block that are to be quantized, by the names of their weights."""
    found = {}
    for name, module in block.named_modules():
        weight = f"{prefix}{name}.weight"
        if isinstance(module, nn.Linear) and choose(weight) is not None:
            found[weight] = module
    return found


@contextmanager
def _moments(linears: Iterator[nn.Linear]) -> Iterator[dict[nn.Linear, torch.Tensor]]:
    """The sum of x x^T over all inputs of each linear part while it runs, [inputs, inputs]."""
    sums: dict[nn.Linear, torch.Tensor] = {}
    handles = []

    def add(linear: nn.Linear, inputs: tuple[torch.Tensor, ...]) -> None:
        x = inputs[0].reshape(-1, inputs[0].shape[-1]).float()
        sums[linear] = sums.get(linear, 0.0) + x.t() @ x

    for linear in linears:
        handles.append(linear.register_forward_pre_hook(add))
    try:
        yield sums
    finally:
        for handle in handles:
            handle.remove()


def _quantized(
    weight: torch.Tensor, format: Format, method: str, moments: torch.Tensor | None
) -> Blocks:
    """`moments`: None with the method "nearest" alone."""
    if method == "nearest":
        return nearest(weight, format)
    if method == "searched":
        return searched(weight, format, moments.diagonal())
    return gptq(weight, format, moments)
