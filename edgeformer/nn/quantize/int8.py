"""Products in INT8: weights with a scale an output, inputs with one scale for the whole tensor.

Both are symmetric, their zero point 0, as TensorRT wants them. Scales are numbers that half
precision has, so that an engine that keeps them so computes the same.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.nn.blockwise import MOST_AT_ONCE, check_finite, embedded, inputs_of, run_block
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.int8_ranges import reach
from edgeformer.nn.quantize.int8_smooth import Fold, divide, factors, folds, head_fold

LEVELS = 127  # of either sign
LEAST_TOKENS = 64  # of a calibration text
ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # that are tried for each fold, beside none at all
ROWS = 512  # of a product's inputs, on which they are tried
HEAD = "head"


@dataclass(frozen=True)
class Product:
    """One product with a matrix. Inputs x become clamp(round(x / scale), -128, 127) * scale."""

    values: torch.Tensor  # int8 [outputs, inputs], from -127 to 127
    scales: torch.Tensor  # float32 [outputs]
    input_scale: float

    def dense(self) -> torch.Tensor:
        """float32 [outputs, inputs]: the matrix that these numbers stand for."""
        return self.values.float() * self.scales[:, None]

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        return _rounded(x, self.input_scale)


@dataclass(frozen=True)
class Int8:
    """A decoder's products by the name of their module, and what goes with them.

    folded: float32 parameters that differ from the decoder's, for smoothing divided one by the
    other; without the quantized matrices. left_out: module -> why its product stays in floats.
    """

    products: dict[str, Product]
    folded: dict[str, torch.Tensor]
    left_out: dict[str, str]


@torch.no_grad()
def calibrated(
    decoder: Decoder,
    ids: torch.Tensor,
    calibrator: str = "max",
    smooth: bool = True,
    progress: Callable[[str], None] = lambda name: None,
) -> tuple[Decoder, dict[str, Product], dict[str, str]]:
    """A copy of the decoder with its factors folded in, all its products, and those that have none.

    ids: int64 [sequences, length], the calibration text. A tied head becomes a matrix of its own.
    Inputs that are 0 throughout the text have no scale, and their products stay in floats.
    """
    _check(decoder, ids)
    own, c = untied(decoder), decoder.config
    found: dict[str, Product] = {}
    left_out: dict[str, str] = {}
    states = [embedded(own, part) for part in ids.split(MOST_AT_ONCE)]
    for i, block in enumerate(own.blocks):
        progress(f"layer {i + 1} of {c.n_layers}")
        names = [f"blocks.{i}.{n}" for n, m in block.named_modules() if isinstance(m, nn.Linear)]
        with inputs_of(own, names) as parts:
            states = [(run_block(own, i, block, x, length), length) for x, length in states]
        inputs = {name: torch.cat(parts[name]) for name in names}
        _quantize(own, folds(c, i) if smooth else [], inputs, calibrator, found, left_out)
    progress(HEAD)
    x = torch.cat([x for x, _ in states])
    inputs = {HEAD: own.final_norm(x) if c.final_norm else x}
    _quantize(own, head_fold(c) if smooth else [], inputs, calibrator, found, left_out)
    return own, found, left_out


def untied(decoder: Decoder) -> Decoder:
    """A copy whose head is a matrix of its own."""
    own = copy.deepcopy(decoder).eval()
    if own.config.tie_embeddings:
        own.config = dataclasses.replace(own.config, tie_embeddings=False)
        own.head = nn.Linear(1, 1, bias=False)
        own.head.weight = nn.Parameter(own.embedding.weight.detach().clone())
    return own


@contextmanager
def in_int8(own: Decoder, products: Mapping[str, Product]) -> Iterator[None]:
    """Inside, a decoder with a head of its own computes these products as INT8 does."""
    handles, kept = [], {}
    for name, product in products.items():
        linear = own.get_submodule(name)
        kept[linear] = linear.weight.data
        linear.weight.data = product.dense()
        if name == HEAD:  # a matrix without a call of its own
            last = own.final_norm if own.config.final_norm else own.blocks[-1]
            handles.append(
                last.register_forward_hook(lambda _, x, y, product=product: product.rounded(y))
            )
        else:
            handles.append(
                linear.register_forward_pre_hook(
                    lambda _, x, product=product: (product.rounded(x[0]),)
                )
            )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for linear, weight in kept.items():
            linear.weight.data = weight


def half_scale(scale: torch.Tensor) -> torch.Tensor:
    """The next number of half precision that is not below; at least its smallest."""
    half = scale.half()
    return torch.where(half.float() < scale, _next(half), half).clamp(min=2.0**-24).float()


def _next(half: torch.Tensor) -> torch.Tensor:
    return (half.view(torch.int16) + 1).view(torch.float16)  # of numbers that are not negative


def _rounded(x: torch.Tensor, scale: float) -> torch.Tensor:
    return (x / scale).round_().clamp_(-LEVELS - 1, LEVELS).mul_(scale)


def _quantized(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 [outputs, inputs] and float32 [outputs]; an output of zeros has the scale 1."""
    most = weight.abs().amax(1)
    scales = torch.where(most > 0, half_scale(most / LEVELS), torch.ones_like(most))
    return (weight / scales[:, None]).round_().clamp_(-LEVELS, LEVELS), scales


def _quantize(
    own: Decoder,
    smoothing: list[Fold],
    inputs: dict[str, torch.Tensor],
    calibrator: str,
    found: dict[str, Product],
    left_out: dict[str, str],
) -> None:
    """Smooth, and quantize the products whose inputs are given, float32 [tokens, inputs]."""
    for name, x in inputs.items():
        if not torch.isfinite(x).all():
            raise CheckFailed(
                f"the inputs of {name} are no finite numbers on the calibration text; check the "
                "checkpoint, or export fp32"
            )
    for fold in smoothing:
        by = _best_factors(own, fold, inputs)
        if by is not None:
            divide(own, fold, by)
            for name in fold.products:
                inputs[name] = inputs[name] / by
    for name, x in inputs.items():
        most = reach(x, calibrator)
        if most == 0.0:
            left_out[name] = "its inputs are 0 throughout the calibration text"
            continue
        scale = half_scale(torch.tensor(most / LEVELS))
        values, scales = _quantized(own.get_submodule(name).weight)
        for what, numbers in (("inputs", scale), ("weights", scales)):
            if torch.isinf(numbers).any():
                left_out[name] = f"the scale of its {what} is beyond half precision"
        if name not in left_out:
            found[name] = Product(values.to(torch.int8), scales, float(scale))


def _best_factors(own: Decoder, fold: Fold, inputs: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """Those of the alpha with the least error of the products; None: better without any."""
    x = inputs[fold.products[0]]
    most = x.abs().amax(0)
    x = x[:: max(1, len(x) // ROWS)]
    weights = [own.get_submodule(name).weight for name in fold.products]
    wanted = [x @ weight.t() for weight in weights]
    best, least = None, _error(x, most.max(), weights, wanted)
    for alpha in ALPHAS:
        by = factors(own.config, fold, most, weights, alpha)
        error = _error(x / by, (most / by).max(), [w * by for w in weights], wanted)
        if error < least:
            best, least = by, error
    return best


def _error(
    x: torch.Tensor, most: torch.Tensor, weights: list[torch.Tensor], wanted: list[torch.Tensor]
) -> float:
    """Of a token's outputs, as a share of their length: every token counts alike, however large."""
    x = _rounded(x, float(most.clamp(min=1e-30)) / LEVELS)
    total = 0.0
    for weight, y in zip(weights, wanted, strict=True):
        values, scales = _quantized(weight)
        gap = x @ (values * scales[:, None]).t() - y
        total += float((gap.square().sum(1) / y.square().sum(1).clamp(min=1e-30)).mean())
    return total


def _check(decoder: Decoder, ids: torch.Tensor) -> None:
    check_finite(decoder)
    if ids.numel() < LEAST_TOKENS:
        raise EdgeformerError(
            f"the calibration text has {ids.numel()} tokens; INT8 needs at least {LEAST_TOKENS}, "
            "and 4,096 are good: give a longer text"
        )
