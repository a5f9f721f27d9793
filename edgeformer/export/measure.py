"""How far logits are from PyTorch's in float32, and how far they may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgeformer.errors import CheckFailed
from edgeformer.manifest_golden import Limits, Top

# logit_error: of max(1, the largest |logit| of the step): rounding errors grow with the scale of
# the whole row, so a logit near 0 beside one of 30 has an error of its neighbours' size.
# FP16: the demo model has an error of 1e-3 and a KL of 6e-6, exaggerated random models 3e-2 and
# 6e-4, where one step of the golden run in 60 has another likeliest token.
LIMITS = {"fp32": Limits(1e-4, 1e-4, 1.0), "fp16": Limits(5e-2, 1e-2, 0.9)}
ANY_NUMBER = Limits(1e9, 1e9, 0.0)
# Of decode.onnx from prefill.onnx with quantized weights, at least. A last bit turns the rounding
# of an activation to 8 bits, that the next one's, and so on: SmolLM2-135M in int8-qdq came to
# 0.026 nats in one step of 63, which is what quantizing costs it.
SAME = Limits(0.1, 2e-2, 0.9)
TOP = 8  # logits of a step that a bundle keeps, for the check on a device


@dataclass(frozen=True)
class Measured:
    """The worst of all steps, and the share of steps with the same likeliest token."""

    logit_error: float
    kl: float  # nats, of the wanted distribution from the found one
    top1: float

    def worse(self, other: Measured) -> Measured:
        return Measured(
            max(self.logit_error, other.logit_error),
            max(self.kl, other.kl),
            min(self.top1, other.top1),
        )


def measured(
    what: str, found: Sequence[np.ndarray], wanted: np.ndarray, precision: str
) -> Measured:
    """Compare step by step, [vocab] each; CheckFailed beyond the limits of a precision.

    Within those of fp32, a token whose logit leads by more than two tolerances is chosen by both.
    A precision without limits of its own is judged by the quality gate, on more text than this.
    """
    limits, total = LIMITS.get(precision, ANY_NUMBER), len(wanted)
    largest_error = largest_kl = 0.0
    same = 0
    for step, (got, want) in enumerate(zip(found, wanted, strict=True)):
        scale = max(1.0, float(np.abs(want).max()))
        error = float(np.abs(got - want).max()) / scale
        divergence = kl(want, got)
        at = f"{what} differs from PyTorch without a cache at step {step + 1} of {total}: "
        if not error <= limits.logit_error:  # NaN compares as not below
            raise CheckFailed(
                f"{at}largest logit error {error:.3g}, allowed {limits.logit_error:g}; "
                "nothing was written"
            )
        if not divergence <= limits.kl:
            raise CheckFailed(
                f"{at}KL {divergence:.3g} nats, allowed {limits.kl:g}; nothing was written"
            )
        largest_error, largest_kl = max(largest_error, error), max(largest_kl, divergence)
        same += int(got.argmax() == want.argmax())
    if precision != "fp32" and same < limits.top1 * total:
        raise CheckFailed(
            f"{what} has PyTorch's likeliest token in {same} of {total} steps, at least "
            f"{limits.top1:.0%} are wanted; nothing was written. If the best logits lie close "
            "together, choose another [golden] prompt; if not, export fp32"
        )
    return Measured(largest_error, largest_kl, same / total)


def limits_of(precision: str, found: Measured) -> Limits:
    """What the check on a device allows: of a quantized graph, some times what it was here.

    A difference in the last bit of an activation turns its rounding to 8 bits, so that the same
    graph of SmolLM2-135M in n8 was 0.049 from float32 with one cut of the prompt and 0.084 with
    another. A graph that is broken is 1 and more from it. An INT8 engine computes the rest in FP16.
    """
    if precision in LIMITS:
        return LIMITS[precision]
    beside = Limits(7e-2, 3e-2, 0.9) if precision == "int8" else Limits(2e-2, 2e-2, 1.0)
    error, divergence = 3 * found.logit_error + beside.logit_error, 3 * found.kl + beside.kl
    top1 = found.top1 - 0.15 + beside.top1 - 1.0
    return Limits(float(f"{error:.3g}"), float(f"{divergence:.3g}"), max(0.0, round(top1, 3)))


def check_same(
    what: str, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray], cost: Measured
) -> None:
    """Two forms of one quantized graph against each other, step by step: they may differ by twice
    what the quantization costs (`cost`, the worst step of one of them)."""
    most = Limits(max(SAME.logit_error, 2 * cost.logit_error), max(SAME.kl, 2 * cost.kl), 0.0)
    for step, (got, want) in enumerate(zip(found, wanted, strict=True)):
        error = float(np.abs(got - want).max()) / max(1.0, float(np.abs(want).max()))
        divergence = kl(want, got)
        if not (error <= most.logit_error and divergence <= most.kl):
            raise CheckFailed(
                f"{what} at step {step + 1} of {len(wanted)}: logit error {error:.3g}, KL "
                f"{divergence:.3g} nats; allowed {most.logit_error:.3g} and {most.kl:.3g}; nothing "
                "was written"
            )


def kl(want: np.ndarray, got: np.ndarray) -> float:
    """Of two rows of logits, in nats."""
    p, q = (x - x.max() for x in (want.astype(np.float64), got.astype(np.float64)))
    p, q = p - np.log(np.exp(p).sum()), q - np.log(np.exp(q).sum())
    return max(0.0, float((np.exp(p) * (p - q)).sum()))


def top(wanted: np.ndarray) -> Top:
    """What a bundle keeps of the reference's logits, [steps, vocab]."""
    order = np.argsort(-wanted, axis=1, kind="stable")[:, :TOP]
    chosen = np.take_along_axis(wanted, order, axis=1).astype(np.float64)
    most = wanted.max(axis=1, keepdims=True).astype(np.float64)
    sums = np.log(np.exp(wanted.astype(np.float64) - most).sum(axis=1)) + most[:, 0]

    def plain(row: np.ndarray) -> tuple[float, ...]:
        return tuple(float(f"{x:.7g}") for x in row)

    return Top(tuple(tuple(map(int, r)) for r in order), tuple(map(plain, chosen)), plain(sums))
