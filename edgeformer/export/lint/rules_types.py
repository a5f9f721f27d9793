"""Rules about element types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import onnx
from onnx import TensorProto

from edgeformer.export.lint.graph import Site
from edgeformer.export.lint.rule import Problem, rule
from edgeformer.export.lint.table import type_name

# ONNX wants INT64 here: sizes, axes and bounds, which TensorRT reads while it builds.
SHAPE_INPUTS = {
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Unsqueeze": (1,),
    "Squeeze": (1,),
    "ReduceSum": (1,),
}
PAIR = ("QuantizeLinear", "DequantizeLinear")
# Their types are those of what they contain, or the table lists another of their types.
NO_DATA = ("If", "Loop", "Scan", "Shape", "Size", "Constant", "ConstantOfShape")
LARGEST_FP16 = 65504.0
REWRITES = {
    "BOOL": "cast to INT32 or FP32 before it, or compute the mask as 0 and 1",
    "INT32": "cast to FP32 before it",
    "BF16": "convert the model to FP32 or FP16: model.float() before the export",
    "UINT8": "use INT32, or INT8 in a quantized graph",
    "FP16": "cast to FP32 before it",
}


@cache
def data_slots(operator: str, opset: int, variadic: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Inputs and outputs that share the data's type: indices, masks and sizes are left out."""
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return (0,), (0,)
    variables = [formal.type_str for formal in schema.inputs]
    variables += variables[-1:] * max(0, variadic - len(variables))
    outputs = [formal.type_str for formal in schema.outputs]
    first = 1 if operator == "Where" else 0
    data = {variables[first]} | ({variables[1]} if operator == "Pow" else set())
    inputs = tuple(i for i, variable in enumerate(variables) if variable in data)
    return inputs, tuple(i for i, variable in enumerate(outputs) if variable in data)


@rule("dtype", title="a type that the operator does not take")
def _dtype(site: Site) -> Iterator[Problem]:
    node, allowed = site.node, site.operator.types
    if site.portable:
        names = _all_but_sizes(node)
        allowed = allowed - {"BOOL"}  # masks are INT32
        if node.op_type in PAIR:  # which the table lists by one side each
            allowed = {"FP32", "INT8"}
    elif node.op_type in NO_DATA or not allowed:
        return
    else:
        inputs, outputs = data_slots(node.op_type, site.opset, len(node.input))
        names = [site.input(i) for i in inputs]
        names += [node.output[i] for i in outputs if i < len(node.output)]
    for name in dict.fromkeys(names):
        found = site.type(name)
        if not name or found in allowed or not (found or site.portable):
            continue
        what = "constant" if site.scope.constant(name) is not None else "tensor"
        stored = type_name(site.element(name))
        shown = found if stored == found else f"{stored}, for TensorRT {found}"
        rewrite = REWRITES.get(found, "cast it, or compute it in another type")
        fact = f"{what} {name} is {shown or 'of an unknown type'}, not {' '.join(sorted(allowed))}"
        yield Problem(fact, rewrite)
        if not site.portable:
            return  # its inputs and outputs share the type: once is enough


def _all_but_sizes(node: onnx.NodeProto) -> list[str]:
    sizes = SHAPE_INPUTS.get(node.op_type, ())
    inputs = [name for i, name in enumerate(node.input) if i not in sizes]
    return [*inputs, *([] if node.op_type == "Shape" else node.output)]


@rule("cast-target", "Cast", title="Cast to a type that the version lacks")
def _cast_target(site: Site) -> Iterator[Problem]:
    target = type_name(site.attribute("to") or 0)
    native = {"FP32", "FP16", "INT32", "INT8", "BOOL", "INT64", "FP64"}
    native |= {"BF16"} if site.parser.native_bfloat16 else set()
    native |= set() if site.is_before("8.6") else {"UINT8"}
    if target not in native:
        yield Problem(f"a cast to {target or 'an unknown type'}", REWRITES.get(target, ""))


@rule(
    "range-type",
    "Range",
    title="a Range that is computed must be INT32 before TensorRT 8.4, and in no version reads a "
    "float input of the graph",
)
def _range(site: Site) -> Iterator[Problem]:
    computed = [name for i, name in enumerate(site.node.input) if not site.is_constant(i)]
    floats = [name for name in computed if site.type(name) not in ("", "INT32", "INT64")]
    kinds = {site.type(name) for name in computed} - {"", "INT32"}
    made = {name for node in site.scope.nodes for name in node.output}
    if kinds and site.is_before("8.5"):
        fact = f"computed from {kinds.pop()}; only constants may be floats here"
        yield Problem(fact, "count in INT32 and cast the result")
    elif site.scope.outer is None and not made.issuperset(floats):
        fact = "computed from a float input of the graph, and sizes are counted in integers"
        yield Problem(fact, "make that input INT32")


@rule("clip-fp16", "Clip", title="Clip in FP16 with bounds that are computed")
def _clip(site: Site) -> Iterator[Problem]:
    bounds = [i for i in (1, 2) if site.input(i)]
    computed = any(not site.is_constant(i) for i in bounds)
    if computed and site.type(site.input(0)) == "FP16":
        yield Problem("bounds that are computed need FP32 or INT32 data", "use Min and Max")


@rule(
    "fill-type", "ConstantOfShape", title="a fill other than FP32, which 8.x documents alone (note)"
)
def _fill(site: Site) -> Iterator[Problem]:
    value = site.attribute("value")
    kind = type_name(value.data_type) if isinstance(value, TensorProto) else "FP32"
    if kind in ("UINT8", "BF16", "STRING", "") and kind not in site.operator.types:
        yield Problem(f"the fill is {kind or 'of an unknown type'}", REWRITES.get(kind, ""))
    elif kind != "FP32" and site.is_before("10"):
        fact = f"the fill is {kind}: FP32 is documented, the importer takes any"
        yield Problem(fact, note=True)


@rule("int64-value", title="an INT64 constant that does not fit INT32 and is clamped (note)")
def _clamped(site: Site) -> Iterator[Problem]:
    if site.parser.native_int64 or site.node.op_type == "Slice":  # an end of INT64_MAX is no value
        return
    for i, name in enumerate(site.node.input):
        array = site.array(i) if site.element(name) == TensorProto.INT64 else None
        if array is None or array.size == 0:
            continue
        if not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
            yield Problem(f"constant {name} does not fit INT32 and is clamped", note=True)


@rule("fp16-value", title="an FP32 constant that an FP16 engine makes infinite (note)")
def _infinite(site: Site) -> Iterator[Problem]:
    if site.node.op_type in ("Clip", "Cast", "Constant"):
        return
    for i, name in enumerate(site.node.input):
        array = site.array(i) if site.element(name) == TensorProto.FLOAT else None
        if array is None or array.size == 0 or array.size > 64:
            continue
        largest = np.max(np.abs(array), initial=0, where=np.isfinite(array))
        if largest > LARGEST_FP16:
            fact = f"constant {name} is beyond 65504: -inf in FP16, and a row of them gives NaN"
            yield Problem(fact, "mask with -1e4", note=True)


@rule(
    "fp16-statistics", "ReduceMean", "LayerNormalization", title="a norm in FP16 overflows (note)"
)
def _statistics(site: Site) -> Iterator[Problem]:
    if site.type(site.input(0)) == "FP16":
        fact = "the mean of squares overflows in FP16 (github.com/NVIDIA/TensorRT/issues/2564)"
        yield Problem(fact, "cast to FP32 before the norm and back after it", note=True)
