"""Half precision with exceptions: parts of a decoder that keep float32 weights and arithmetic.

A pin is the path of a module, whose whole inside is then float32, or STREAM: the sums between the
blocks. What one part gives in float32 is cast where the next one is half.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any, TypeVar

import torch
from torch import nn

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Attention, FeedForward

STREAM = "residual"

Module = TypeVar("Module", bound=nn.Module)


def half_copy(
    module: Module,
    pins: Collection[str] = (),
    path: str = "",
    instead: dict[nn.Module, nn.Module] | None = None,
) -> Module:
    """A copy in half precision, but for what is pinned. Only what is cast takes new memory.

    `path`: where the module stands in its decoder. `instead`: parts to leave out of the copy, and
    what stands there in their place.
    """
    instead = instead or {}
    wide = float32_modules(module, pins, path)
    made: dict[int, Any] = {id(buffer): buffer for buffer in module.buffers()}
    made |= {id(part): other for part, other in instead.items()}
    left_out = {id(p) for part in instead for p in part.parameters()}
    for name, part in module.named_modules():
        for weight in part.parameters(recurse=False):
            if id(weight) not in left_out:
                kept = joined(path, name) in wide
                made[id(weight)] = weight if kept else nn.Parameter(weight.detach().half())
    found = copy.deepcopy(module, made)
    if isinstance(found, Decoder):
        found.dtype, found.float32_stream = torch.float16, STREAM in pins
    return found


def to_half(decoder: Decoder, pins: Collection[str] = ()) -> Decoder:
    """Cast this very decoder, all but what is pinned; no weight is twice in memory."""
    wide = float32_modules(decoder, pins)
    for name, part in decoder.named_modules():
        for weight in () if name in wide else part.parameters(recurse=False):
            weight.data = weight.data.half()
    decoder.dtype, decoder.float32_stream = torch.float16, STREAM in pins
    return decoder


def float32_modules(module: nn.Module, pins: Collection[str], path: str = "") -> frozenset[str]:
    """Paths in the decoder of all modules that compute in float32.

    An activation has the type of the product that follows it, and attention between its
    projections is half where either of them is.
    """
    modules = {joined(path, name): part for name, part in module.named_modules()}
    wide = {
        name for name in modules if any(name == pin or name.startswith(pin + ".") for pin in pins)
    }
    for name, part in modules.items():
        if isinstance(part, (Attention, FeedForward)):
            needed = ("qkv", "out") if isinstance(part, Attention) else ("down",)
            wide.discard(name)
            if all(f"{name}.{linear}" in wide for linear in needed):
                wide.add(name)
    return frozenset(wide)


def joined(path: str, name: str) -> str:
    return ".".join(filter(None, (path, name)))
