"""A node and what is known around it: types, ranks and constants, through nested graphs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgeformer.export.lint.table import Operator, operator_table, type_name
from edgeformer.targets import Parser

STANDARD = ("", "ai.onnx")
MOST_VALUES = 1 << 16  # of a constant that a rule looks into


@dataclass
class Scope:
    """The values of one graph; names that it lacks are looked up in the graph around it."""

    nodes: Any
    outer: Scope | None = None
    types: dict[str, onnx.TypeProto.Tensor] = field(default_factory=dict)
    constants: dict[str, TensorProto] = field(default_factory=dict)

    def constant(self, name: str) -> TensorProto | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.constants:
                return scope.constants[name]
            scope = scope.outer
        return None

    def tensor(self, name: str) -> onnx.TypeProto.Tensor | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.types:
                return scope.types[name]
            scope = scope.outer
        return None


def scopes(model: onnx.ModelProto) -> Iterator[Scope]:
    """The graph, the bodies of If, Loop and Scan inside it, and the model's own functions."""
    waiting: deque[tuple[Any, Scope | None]] = deque([(model.graph, None)])
    waiting.extend((function, None) for function in model.functions)
    while waiting:  # no recursion: a hostile file may nest as deeply as protobuf lets it
        body, outer = waiting.popleft()
        scope = _scope(body, outer)
        yield scope
        for node in scope.nodes:
            for attribute in node.attribute:
                bodies = (attribute.g, *attribute.graphs)
                waiting.extend((graph, scope) for graph in bodies if graph.node)


def _scope(body: Any, outer: Scope | None) -> Scope:
    scope = Scope(body.node, outer)
    if isinstance(body, onnx.GraphProto):
        for value in (*body.value_info, *body.input, *body.output):
            if value.type.HasField("tensor_type"):
                scope.types[value.name] = value.type.tensor_type
        scope.constants = {tensor.name: tensor for tensor in body.initializer}
    for node in body.node:
        if node.op_type == "Constant" and node.domain in STANDARD and len(node.output) == 1:
            for attribute in node.attribute:
                if attribute.name == "value":
                    scope.constants[node.output[0]] = attribute.t
    return scope


@dataclass(frozen=True)
class Site:
    """A node as one TensorRT version would meet it."""

    node: onnx.NodeProto
    scope: Scope
    opset: int
    parser: Parser
    portable: bool  # our own dialect: no BOOL, and INT64 only where ONNX asks for sizes

    @property
    def operator(self) -> Operator:
        return operator_table(self.parser.version)[self.node.op_type]

    def is_before(self, version: str) -> bool:
        return tuple(map(int, self.parser.title.split("."))) < tuple(map(int, version.split(".")))

    def input(self, i: int) -> str:
        """Its name; "" where it is left out."""
        return self.node.input[i] if i < len(self.node.input) else ""

    def element(self, name: str) -> int:
        """The ONNX element type; 0 where it is not known."""
        constant = self.scope.constant(name)
        if constant is not None:
            return constant.data_type
        tensor = self.scope.tensor(name)
        return tensor.elem_type if tensor is not None else 0

    def type(self, name: str) -> str:
        """The type that TensorRT works in: it narrows INT64 (before 9.0) and DOUBLE itself."""
        found = type_name(self.element(name))
        if self.portable:
            return found
        if found == "INT64" and not self.parser.native_int64:
            return "INT32"
        if found == "UINT8" and self.scope.constant(name) is not None:
            return "INT32"
        return "FP32" if found == "FP64" else found

    def rank(self, name: str) -> int | None:
        constant = self.scope.constant(name)
        if constant is not None:
            return len(constant.dims)
        tensor = self.scope.tensor(name)
        known = tensor is not None and tensor.HasField("shape")
        return len(tensor.shape.dim) if known else None

    def is_constant(self, i: int) -> bool:
        return self.scope.constant(self.input(i)) is not None

    def array(self, i: int) -> np.ndarray | None:
        """The value of a small constant input that is stored in the file itself."""
        tensor = self.scope.constant(self.input(i))
        if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
            return None
        if not all(0 <= size <= MOST_VALUES for size in tensor.dims):
            return None
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError):  # its bytes do not fit its sizes
            return None

    def attribute(self, name: str) -> Any:
        """None where it is absent or of no known kind."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                try:
                    value = helper.get_attribute_value(attribute)
                except ValueError:
                    return None
                return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        return None
