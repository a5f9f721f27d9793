"""Rules about inputs that must be constants: the parser reads them while it builds the network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgeformer.export.lint.graph import Site
from edgeformer.export.lint.rule import Problem, rule

REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
# Operator -> inputs and the first version that computes them; "" for none of the table.
CONSTANT_INPUTS: dict[str, tuple[tuple[int, ...], str]] = {
    "TopK": ((1,), "8.6"),
    "Slice": ((3,), ""),  # 10.3 takes computed axes, which is newer than the table
    "Squeeze": ((1,), ""),
    "Unsqueeze": ((1,), ""),
    **dict.fromkeys(REDUCTIONS, ((1,), "")),
    "CumSum": ((1,), ""),
    "Conv": ((1, 2), "8.5"),
    "ConvTranspose": ((1, 2), "8.5"),
    "InstanceNormalization": ((1, 2), ""),
    "NonMaxSuppression": ((3, 4), "8.5"),
}
SINCE_10: dict[str, tuple[int, ...]] = {"OneHot": (1,), "Pad": (3,)}
MOST_K = 3840
REWRITE = "make it a Constant or an initializer: compute it in Python, from no tensor's size"


@rule("constant-input", *CONSTANT_INPUTS, *SINCE_10, title="an input that must be a constant")
def _constant_input(site: Site) -> Iterator[Problem]:
    operator = site.node.op_type
    if operator in SINCE_10:
        slots = () if site.is_before("10") else SINCE_10[operator]
    else:
        slots, since = CONSTANT_INPUTS[operator]
        if since and not site.is_before(since):
            return
    if operator in REDUCTIONS and _ignores_axes(site):
        return  # the next rule
    for i in slots:
        if site.input(i) and not site.is_constant(i):
            yield Problem(f"input {i} must be a constant", REWRITE)


@rule("reduce-axes", *REDUCTIONS, title="axes as an input (opset 18), which 8.x ignores")
def _reduce_axes(site: Site) -> Iterator[Problem]:
    if _ignores_axes(site):
        fact = (
            f"TensorRT {site.parser.title} reads the axes attribute only and would reduce all axes"
        )
        yield Problem(fact, "export with opset 17 or older: axes are an attribute there")


def _ignores_axes(site: Site) -> bool:
    return site.node.op_type != "ReduceSum" and bool(site.input(1)) and site.is_before("10")


@rule("topk-limit", "TopK", title="TopK with K above 3840")
def _topk(site: Site) -> Iterator[Problem]:
    k = site.array(1)
    if k is not None and k.size == 1 and int(k.reshape(-1)[0]) > MOST_K:
        yield Problem(f"K is {int(k.reshape(-1)[0])}; it may be at most {MOST_K}", "choose fewer")


@rule("slice-axes", "Slice", title="Slice with an axis twice")
def _slice_axes(site: Site) -> Iterator[Problem]:
    axes, rank = site.array(3), site.rank(site.input(0))
    if axes is not None and rank:
        plain = [int(axis) % rank for axis in axes.reshape(-1)]
        if len(set(plain)) < len(plain):
            yield Problem(f"axes {axes.tolist()} name an axis twice", "use two Slice nodes")


@rule("constant-attribute", "Constant", title="a Constant whose value is lost or not read")
def _constant_attribute(site: Site) -> Iterator[Problem]:
    names = [attribute.name for attribute in site.node.attribute]
    for name in names:
        if name in ("value_int", "value_ints") and site.is_before("10"):
            fact = f"{name} is read as a float and lost: the constant becomes 0 or empty"
            yield Problem(fact, "use the attribute value, a tensor")
        elif name in ("sparse_value", "value_string", "value_strings"):
            yield Problem(f"{name} is not read", "use the attribute value, a tensor")


@rule("training", "Dropout", "BatchNormalization", title="an operator in its training form")
def _training(site: Site) -> Iterator[Problem]:
    mode = site.array(2) if site.node.op_type == "Dropout" else site.attribute("training_mode")
    computed = site.node.op_type == "Dropout" and site.input(2) and not site.is_constant(2)
    if computed or (mode is not None and np.any(mode)):
        yield Problem("it is in training mode", "call model.eval() before the export")
