"""Whether a model survives half precision: PyTorch runs it, and the first infinity is named.

ONNX Runtime cannot tell: on a CPU it computes FP16 graphs in FP32 and rounds only here and there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from edgeformer.errors import CheckFailed
from edgeformer.nn.decoder import Decoder

LARGEST = "beyond 65504, the most of FP16"
ADVICE = "export it in fp32, from which FP16 engines keep what they can; nothing was written"


def check_weights(decoder: Decoder) -> None:
    """Refuse weights that half precision makes infinite."""
    for name, weight in decoder.named_parameters():
        if weight.dtype == torch.float16 and not torch.isfinite(weight).all():
            raise CheckFailed(f"the weight {name} is {LARGEST}; {ADVICE}")


@contextmanager
def finite(decoder: Decoder) -> Iterator[None]:
    """Inside, every result in half precision is held against infinity, whatever hides it later:
    a norm whose squares overflow divides by it and gives zeros."""
    inside: list[str] = []
    hooks = []
    for name, module in decoder.named_modules():
        if name:
            hooks.append(module.register_forward_pre_hook(_enter(inside, name)))
            hooks.append(module.register_forward_hook(lambda *_: inside.pop() and None))
    modules = dict(decoder.named_modules())
    try:
        with _Watch(lambda: _where(inside, modules)):
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _Watch(TorchDispatchMode):
    """Sees every operation of PyTorch, those between modules too."""

    def __init__(self, where: Callable[[], str]) -> None:
        super().__init__()
        self.where = where

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else (result,):
            half = isinstance(value, torch.Tensor) and value.dtype == torch.float16
            if half and not torch.isfinite(value).all():
                name = str(operation).removeprefix("aten.").partition(".")[0]
                raise CheckFailed(
                    f"{self.where()} computes a number {LARGEST} (in {name}), in the golden run; "
                    f"{ADVICE}"
                )
        return result


def _enter(inside: list[str], name: str) -> Callable[..., None]:
    return lambda *_: inside.append(name)


def _where(inside: list[str], modules: dict[str, nn.Module]) -> str:
    if not inside:
        return "the embedding or the product with the vocabulary"
    return f"{inside[-1]} ({type(modules[inside[-1]]).__name__})"
