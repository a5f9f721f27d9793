"""What half precision makes of a model: PyTorch computes as an FP16 engine would, and watches.

ONNX Runtime cannot tell: on a CPU it computes FP16 graphs in FP32 and rounds only here and there.
Here each operation is computed in float32 and its result rounded to half, once. Inside a product
an engine may sum in FP32 or in FP16, and TensorRT chooses by time alone (github.com/NVIDIA/
TensorRT/issues/1237 and 2942); a GPU without tensor cores is fastest in FP16. So sums that leave
FP16's range in the worst order count as too large. That an approximated GELU cubes its input is
passed over: an infinity there gives the right limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from edgeformer.nn.pins import joined

LARGEST = 65504.0
PRODUCTS = ("mm", "addmm", "bmm", "matmul", "linear")
CASTS = ("_to_copy", "to", "half", "float", "type_as")
MOVES = (*CASTS, "cat", "clone", "detach", "embedding", "_unsafe_view", "index_select", "reshape")
SMALLEST = 2.0**-14  # of FP16's normal numbers: what is below may be taken for 0
MOST_LOSS = 0.01  # of a matrix, as a share of its norm; rounding alone takes 2e-4
SLICE = 1 << 20  # numbers of a matrix that are float32 at once


class TooLarge(Exception):
    """A number that half precision cannot hold, or that is near the end of its range."""

    def __init__(self, module: str, operator: str, value: float, inside: bool) -> None:
        super().__init__(module)
        self.module, self.operator = module, operator  # "": between the modules
        if inside:
            self.why = (
                f"partial sums of up to {value:.2g}, beyond 65504, where products are summed in "
                "FP16"
            )
        else:
            where = "too near to" if value <= LARGEST else "beyond"
            self.why = f"an activation of {value:.3g}, {where} 65504"
        if math.isnan(value):
            self.why = "a result that is no number"


@contextmanager
def rounded(module: nn.Module, path: str = "", most: float = LARGEST) -> Iterator[None]:
    """Inside, what is half in this module is computed as an engine does.

    The first result beyond `most` raises TooLarge, with the path of its module in the decoder,
    whatever hides it later: a norm whose squares overflow divides by infinity and gives zeros.
    """
    inside: list[str] = []
    hooks = []
    for name, part in module.named_modules():
        if joined(path, name):
            hooks.append(part.register_forward_pre_hook(_enter(inside, joined(path, name))))
            hooks.append(part.register_forward_hook(lambda *_: inside.pop() and None))
    try:
        with _Rounded(lambda: inside[-1] if inside else path, most):
            yield
    finally:
        for hook in hooks:
            hook.remove()


def lost(weight: torch.Tensor, factor: bool = True) -> str:
    """Why FP16 cannot hold these weights, or "". `factor`: whether small ones count."""
    largest = missing = total = 0.0
    for part in weight.detach().reshape(-1).split(SLICE):
        half = part.half().float()
        half[half.abs() < SMALLEST] = 0.0
        largest = max(largest, float(part.abs().amax()))
        missing += float((part - half).square().sum(dtype=torch.float64))
        total += float(part.square().sum(dtype=torch.float64))
    if not largest <= LARGEST:
        return f"a weight of {largest:.3g}, beyond 65504"
    if factor and missing > MOST_LOSS**2 * total:
        share = (missing / total) ** 0.5
        return f"weights that lose {share:.1%}: most are below 6.1e-5, where FP16 is coarse"
    return ""


class _Rounded(TorchDispatchMode):
    """Sees every operation of PyTorch, those between modules too."""

    def __init__(self, where: Callable[[], str], most: float) -> None:
        super().__init__()
        self.where, self.most = where, most

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = str(operation).removeprefix("aten.").partition(".")[0]
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not any(map(_is_half, tensors)) or operation.is_view or name in MOVES:
            result = operation(*args, **kwargs)
            if name in CASTS and _is_half(result) and not _is_half(tensors[0]):
                self._check("a cast", tensors[0])
            return result
        if name in PRODUCTS:
            result = self._product(operation, name, args)
        else:
            result = operation(*tree_map(_widened, args), **tree_map(_widened, kwargs))
        if any(t.dtype == torch.float32 and t.dim() for t in tensors):
            return result  # PyTorch gives the wider type
        return tree_map(lambda leaf: self._narrowed(name, leaf), result)

    def _product(self, operation: Any, name: str, args: Any) -> torch.Tensor:
        """In float32; a large matrix in slices, for all of it would be a second model."""
        bias = args[:1] if name == "addmm" else ()
        a, b = args[len(bias) : len(bias) + 2]
        outputs = 0 if name == "linear" else b.dim() - 1
        step = max(1, SLICE // (b.numel() // b.shape[outputs]))
        a, found = a.float(), []
        for start in range(0, b.shape[outputs], step):
            part = b.narrow(outputs, start, min(step, b.shape[outputs] - start)).float()
            part = part.t() if name == "linear" else part
            product = a @ part  # [..., M, slice]
            self._check_sums(name, a, part, product)
            found.append(product)
        product = torch.cat(found, -1) if len(found) > 1 else found[0]
        added = bias if name == "addmm" else args[2:]
        return product + added[0].float() if added and added[0] is not None else product

    def _check_sums(
        self, name: str, a: torch.Tensor, b: torch.Tensor, product: torch.Tensor
    ) -> None:
        """The largest sum on the way, if all positive terms came first, or all negative ones."""
        most = float(a.norm(dim=-1).amax() * b.norm(dim=-2).amax())  # Cauchy and Schwarz
        if most <= LARGEST:
            return
        most = float(((a.abs() @ b.abs() + product.abs()) / 2).amax())
        if most > LARGEST and float(product.abs().amax()) <= self.most:
            raise TooLarge(self.where(), name, most, True)

    def _narrowed(self, name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
            return value
        self._check(name, value)
        return value.half()

    def _check(self, name: str, value: torch.Tensor) -> None:
        if value.numel():
            low, high = torch.aminmax(value)
            largest = max(-float(low), float(high))
            if not largest <= self.most:  # NaN is not either
                raise TooLarge(self.where(), name, largest, False)


def _is_half(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.float16


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and _is_half(value) else value


def _enter(inside: list[str], name: str) -> Callable[..., None]:
    return lambda *_: inside.append(name)
