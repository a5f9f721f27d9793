"""Which ONNX operators a TensorRT version parses, and whether a graph keeps to them.

`trt_operators.csv` has a row an operator: supported or not in 8.2, 8.5, 8.6 and 10.1, the
restriction, and the types that TensorRT lists. It was compiled from NVIDIA's onnx-tensorrt
repository: docs/operators.md and the importer sources (builtin_op_importers.cpp) at the tags
release/8.2-GA, release/8.5-GA, release/8.6-GA and release/10.1-GA. onnx-tensorrt lists INT8 where
an explicitly quantized graph may have it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

import onnx
from onnx import TensorProto

from edgeformer.errors import CheckFailed

# TensorProto types by the names that the table uses.
TYPE_NAMES = {
    TensorProto.FLOAT: "FP32",
    TensorProto.DOUBLE: "FP64",
    TensorProto.FLOAT16: "FP16",
    TensorProto.BFLOAT16: "BF16",
    TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64",
    TensorProto.INT8: "INT8",
    TensorProto.UINT8: "UINT8",
    TensorProto.BOOL: "BOOL",
}
# ONNX wants INT64 here: sizes, axes and bounds, which TensorRT reads while it builds.
SHAPE_INPUTS = {
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Unsqueeze": (1,),
    "Squeeze": (1,),
    "ReduceSum": (1,),
}
# Inputs that must be constants, not tensors that are computed in the graph.
CONSTANT_INPUTS = {"Slice": (3,), "Unsqueeze": (1,), "Squeeze": (1,), "ReduceSum": (1,)}


@dataclass(frozen=True)
class Limits:
    """What one TensorRT version takes, beside its operators."""

    version: str  # a column of the table
    opset: int
    ir: int


TENSORRT_8_2 = Limits("8.2", opset=13, ir=8)


@dataclass(frozen=True)
class Operator:
    """One operator in one TensorRT version."""

    supported: bool
    restriction: str
    types: frozenset[str]


@dataclass(frozen=True)
class Finding:
    """One thing that a TensorRT version would refuse; `node` is empty for the whole graph."""

    node: str
    operator: str
    fact: str

    def text(self, module_of: Callable[[str], str] = str) -> str:
        if not self.node:
            return self.fact
        return f"{self.operator} (node {self.node}, made by {module_of(self.node)}): {self.fact}"


def operator_table(version: str) -> dict[str, Operator]:
    """The table's column of one TensorRT version."""
    text = resources.files(__package__).joinpath("trt_operators.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    # the table lists types for 8.2 and 10.1; what 8.2 takes, the versions between take too
    types = "types_10.1" if version == "10.1" else "types_8.2"
    return {
        row["op"]: Operator(
            row[f"supported_in_{version}"] == "yes",
            row[f"restriction_{version}"],
            frozenset(row[types].split()),
        )
        for row in rows
    }


def check_operators(model: onnx.ModelProto, limits: Limits = TENSORRT_8_2) -> list[Finding]:
    """All findings, unknown operators first: with those the types cannot be inferred."""
    findings = [*_versions(model, limits)]
    table = operator_table(limits.version)
    unknown = [*_unknown(model.graph.node, table, limits)]
    if unknown:
        return findings + unknown
    types = value_types(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        findings += _types(node, table[node.op_type], types, constants)
        findings += _shape_inputs(node, constants)
    return findings


def value_types(model: onnx.ModelProto) -> dict[str, int]:
    """The element type of every value in the graph, by ONNX's own inference."""
    try:
        graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    except onnx.shape_inference.InferenceError as error:
        raise CheckFailed(f"the types of graph {model.graph.name} do not fit: {error}") from error
    values = [*graph.input, *graph.value_info, *graph.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return {**types, **{tensor.name: tensor.data_type for tensor in graph.initializer}}


def _versions(model: onnx.ModelProto, limits: Limits) -> Iterator[Finding]:
    if model.ir_version > limits.ir:
        yield Finding("", "", f"IR version {model.ir_version}; it may be at most {limits.ir}")
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version > limits.opset:
            yield Finding("", "", f"opset {opset.version}; it may be at most {limits.opset}")


def _unknown(
    nodes: Iterable[onnx.NodeProto], table: dict[str, Operator], limits: Limits
) -> Iterator[Finding]:
    for node in nodes:
        operator = table.get(node.op_type)
        if node.domain not in ("", "ai.onnx"):
            fact = f"domain {node.domain}; only standard ONNX operators can be parsed"
        elif operator is None:
            fact = f"TensorRT {limits.version} has no such operator"
        elif not operator.supported:
            fact = f"not in TensorRT {limits.version}: {operator.restriction or 'no importer'}"
        else:
            continue
        yield Finding(node.name, node.op_type, fact)


def _types(
    node: onnx.NodeProto, operator: Operator, types: dict[str, int], constants: set[str]
) -> Iterator[Finding]:
    shape_inputs = SHAPE_INPUTS.get(node.op_type, ())
    names = [n for i, n in enumerate(node.input) if n and i not in shape_inputs]
    names += [] if node.op_type == "Shape" else [n for n in node.output if n]
    for name in names:
        found = TYPE_NAMES.get(types.get(name, 0), "of an unknown type")
        if found not in operator.types or found == "BOOL":  # masks are INT32: no BOOL anywhere
            what = "constant" if name in constants else "tensor"
            allowed = " ".join(sorted(operator.types - {"BOOL"}))
            yield Finding(node.name, node.op_type, f"{what} {name} is {found}, not {allowed}")


def _shape_inputs(node: onnx.NodeProto, constants: set[str]) -> Iterator[Finding]:
    for i in CONSTANT_INPUTS.get(node.op_type, ()):
        if i < len(node.input) and node.input[i] and node.input[i] not in constants:
            yield Finding(node.name, node.op_type, f"input {i} must be a constant")
