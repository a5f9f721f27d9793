"""`trt_operators.csv`: which operators a TensorRT version parses, with which types.

A row an operator: supported or not in 8.2, 8.5, 8.6 and 10.1, the restriction, and the types that
TensorRT lists. It was compiled from NVIDIA's onnx-tensorrt repository: docs/operators.md and the
importer sources (builtin_op_importers.cpp) at the tags release/8.2-GA, release/8.5-GA,
release/8.6-GA and release/10.1-GA. onnx-tensorrt lists INT8 where an explicitly quantized graph
may have it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from onnx import TensorProto

from edgeformer.targets import PARSERS, parser_for

# TensorProto types by the names that the table uses; all others go by their ONNX names.
TYPE_NAMES = {
    TensorProto.FLOAT: "FP32",
    TensorProto.DOUBLE: "FP64",
    TensorProto.FLOAT16: "FP16",
    TensorProto.BFLOAT16: "BF16",
}
# Types that the restrictions add to the listed ones, and since which version.
ADDED = {
    "Gather": ("8.5", "BOOL"),
    "GatherElements": ("8.5", "BOOL"),
    "GatherND": ("8.5", "BOOL"),
    "ArgMax": ("8.6", "INT32"),
    "ArgMin": ("8.6", "INT32"),
    "TopK": ("8.6", "INT32"),
    "Clip": ("8.2", "INT32"),
    "Cast": ("8.5", "UINT8"),
    "Where": ("8.5", "BOOL"),
}
# Listed for 8.2, refused by its importer.
LISTED_IN_VAIN = {("8.2", "Where"): "BOOL"}


@dataclass(frozen=True)
class Operator:
    """One operator in one TensorRT version."""

    supported: bool
    restriction: str
    types: frozenset[str]


def type_name(element: int) -> str:
    """INT32 ..., or "" for a type that is not known."""
    if element in TYPE_NAMES:
        return TYPE_NAMES[element]
    names = TensorProto.DataType
    return names.Name(element) if element in names.values() and element else ""


@cache
def operator_table(version: str) -> dict[str, Operator]:
    """The table's column of one TensorRT version."""
    text = resources.files("edgeformer.export").joinpath("trt_operators.csv").read_text("utf-8")
    return {
        row["op"]: Operator(
            row[f"supported_in_{version}"] == "yes",
            row[f"restriction_{version}"],
            frozenset(_types(row, version)),
        )
        for row in csv.DictReader(text.splitlines())
    }


def _types(row: dict[str, str], version: str) -> set[str]:
    """Listed for 8.2 and 10.1; what 8.2 takes, the versions between take too."""
    newest = set(row["types_10.1"].split())
    if version == "10.1":
        return newest
    listed = set(row["types_8.2"].split()) or newest - {"BF16", "INT64", "FP8", "INT4"}
    since, added = ADDED.get(row["op"], ("", ""))
    if added and PARSERS.index(parser_for(version)) >= PARSERS.index(parser_for(since)):
        listed.add(added)
    return listed - {LISTED_IN_VAIN.get((version, row["op"]))}


def first_version(operator: str) -> str:
    """The first TensorRT of the table that has an operator, or ""."""
    for parser in PARSERS:
        found = operator_table(parser.version).get(operator)
        if found is not None and found.supported:
            return parser.title
    return ""
