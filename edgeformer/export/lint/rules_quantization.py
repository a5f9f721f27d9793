"""Rules about QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgeformer.export.lint.graph import Site
from edgeformer.export.lint.rule import Problem, rule
from edgeformer.export.lint.table import type_name

PAIR = ("QuantizeLinear", "DequantizeLinear")
SYMMETRIC = "quantize symmetrically: INT8, zero point 0"
EIGHT_BITS = ("INT8",)
IN_10 = ("INT8", "FLOAT8E4M3FN", "INT4")


@rule("qdq-zero-point", *PAIR, title="a zero point that is missing or not 0")
def _zero_point(site: Site) -> Iterator[Problem]:
    if not site.input(2):
        if site.is_before("10"):
            yield Problem("the zero point is left out; three inputs are needed", SYMMETRIC)
        return
    if not site.is_constant(2):
        yield Problem("the zero point is computed; it must be a constant 0", SYMMETRIC)
        return
    kind = type_name(site.element(site.input(2)))
    if kind not in (EIGHT_BITS if site.is_before("10") else IN_10):
        yield Problem(f"the zero point is {kind}, so the values are; INT8 is needed", SYMMETRIC)
    value = site.array(2)
    if value is not None and np.any(value != 0):
        yield Problem("the zero point is not 0", SYMMETRIC)


@rule("qdq-scale", *PAIR, title="a scale that is not above 0, or does not fit its zero point")
def _scale(site: Site) -> Iterator[Problem]:
    scale, zero = site.array(1), site.array(2)
    if scale is None:
        return
    if scale.size == 0 or not np.all(np.asarray(scale, np.float64) > 0):
        yield Problem("a scale is 0 or below", "calibrate again; leave out what is always 0")
    if zero is not None and zero.size != scale.size:
        yield Problem(f"{scale.size} scales and {zero.size} zero points", "give as many of both")


@rule("qdq-axis", *PAIR, title="scales a channel for something that is no weight")
def _axis(site: Site) -> Iterator[Problem]:
    scale = site.array(1)
    if scale is None or scale.size <= 1:
        return
    weight = site.scope.constant(site.input(0))
    if weight is None and site.node.op_type == "QuantizeLinear":
        yield Problem("scales a channel are for weights only", "one scale for an activation")
    elif weight is not None and weight.dims:
        axis = site.attribute("axis")
        axis = (1 if axis is None else axis) % len(weight.dims)
        if weight.dims[axis] != scale.size:
            fact = f"{scale.size} scales for an axis of {weight.dims[axis]}"
            yield Problem(fact, "give a scale for each entry of the axis")
