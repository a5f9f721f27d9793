"""Clean up a traced graph: one forward pass that folds, merges and drops nodes.

The exporter leaves Constant and Identity nodes, transposed weights, no-op casts and repeated
subgraphs. What depends on weights alone becomes a `Weight`, made when it is written, so that
a large model is never in memory twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

SMALL = 1024  # bytes: constants below this are compared by content


@dataclass(frozen=True)
class Weight:
    """A tensor that the graph reads and never writes. `array()` may compute it anew each time."""

    name: str  # the parameter that it comes from and what was done to it; "" for a constant
    array: Callable[[], np.ndarray]
    small: bool = False


@dataclass
class Draft:
    """A graph while it is being cleaned. Nodes stand in an order that can be run."""

    nodes: list[onnx.NodeProto]
    weights: dict[str, Weight]  # by value name
    outputs: tuple[str, ...]
    types: dict[str, int]  # element type of a value, where it is known
    ranks: dict[str, int]  # number of axes of a value, where it is known
    _same: dict[str, str] = field(default_factory=dict)  # value -> the earlier value equal to it
    _seen: dict[tuple, onnx.NodeProto] = field(default_factory=dict)
    _made_by: dict[str, onnx.NodeProto] = field(default_factory=dict)

    def clean(self) -> None:
        kept = []
        for node in self.nodes:
            for i, name in enumerate(node.input):
                node.input[i] = self._same.get(name, name)
            if not self._drop(node):
                kept.append(node)
                self._made_by.update(dict.fromkeys(node.output, node))
        self.nodes = used(kept, self.outputs)
        self._name_weights()

    def _name_weights(self) -> None:
        """Keep what is used, under the names of the checkpoint; constants are numbered."""
        used = {name for node in self.nodes for name in node.input}
        named: dict[str, Weight] = {}
        renamed = {}
        for value, weight in self.weights.items():
            if value in used:
                name = weight.name or f"constant.{len(renamed)}"
                while name in named:  # the same parameter in two shapes
                    name += "_"
                named[name] = weight
                renamed[value] = name
        for node in self.nodes:
            for i, name in enumerate(node.input):
                node.input[i] = renamed.get(name, name)
        self.weights = named

    def _drop(self, node: onnx.NodeProto) -> bool:
        """Whether the node's outputs are known without it."""
        key = (node.op_type, node.domain, *node.input, *sorted(map(_bytes, node.attribute)))
        if node.op_type == "Constant":
            self._add_constant(node.output[0], _constant(node))
            return True
        if any(name in self.outputs for name in node.output):
            return False
        known = self._no_op(node) or self._shape_again(node)
        if known:
            self._same[node.output[0]] = known
        elif key in self._seen:
            earlier = [self._same.get(name, name) for name in self._seen[key].output]
            self._same.update(zip(node.output, earlier, strict=True))
        elif not self._fold(node):
            self._seen[key] = node
            return False
        else:
            self._seen[key] = node
        return True

    def _add_constant(self, value: str, array: np.ndarray) -> None:
        """Note a constant, or that it equals an earlier one."""
        if array.nbytes >= SMALL:
            self.weights[value] = Weight("", lambda: array)
            return
        key = ("constant", array.dtype.str, array.shape, array.tobytes())
        if key in self._seen:
            self._same[value] = self._seen[key].output[0]
            return
        self._seen[key] = onnx.NodeProto(output=[value])
        self.weights[value] = Weight("", lambda: array, small=True)

    def _fold(self, node: onnx.NodeProto) -> bool:
        """Compute what depends on weights alone: at once if small, else when it is written."""
        sources = [self.weights.get(name) for name in node.input if name]
        if not sources or None in sources or node.domain:
            return False
        if all(source.small for source in sources):
            for name, array in zip(node.output, _evaluate(node, sources), strict=True):
                self._add_constant(name, array)
            return True
        origin = next((source.name for source in sources if source.name), "")
        for i, value in enumerate(node.output):
            name = f"{origin}.{node.op_type.lower()}" if origin else ""
            name += f".{i}" if len(node.output) > 1 else ""
            self.weights[value] = Weight(name, lambda i=i: _evaluate(node, sources)[i])
        return True

    def _no_op(self, node: onnx.NodeProto) -> str:
        """The input that the output equals, or ""."""
        if node.op_type == "Identity":
            return node.input[0]
        if node.op_type == "Cast":
            target = next(a.i for a in node.attribute if a.name == "to")
            return node.input[0] if self.types.get(node.input[0]) == target else ""
        return ""

    def _shape_again(self, node: onnx.NodeProto) -> str:
        """Unsqueeze(Gather(Shape(x), 0)) of a vector x is Shape(x)."""
        gather = self._made_by.get(node.input[0]) if node.op_type == "Unsqueeze" else None
        shape = self._made_by.get(gather.input[0]) if gather is not None else None
        if shape is None or gather.op_type != "Gather" or shape.op_type != "Shape":
            return ""
        index = self.weights.get(gather.input[1])
        first = index is not None and index.small and not index.array().any()
        return shape.output[0] if first and self.ranks.get(shape.input[0]) == 1 else ""


def used(nodes: list[onnx.NodeProto], outputs: tuple[str, ...]) -> list[onnx.NodeProto]:
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    return kept[::-1]


def _constant(node: onnx.NodeProto) -> np.ndarray:
    attribute = node.attribute[0]
    if attribute.name == "value":
        return numpy_helper.to_array(attribute.t)
    return np.array(onnx.helper.get_attribute_value(attribute))


def _evaluate(node: onnx.NodeProto, sources: list[Weight]) -> list[np.ndarray]:
    """Run one node with ONNX's reference implementation."""
    from onnx.reference import ReferenceEvaluator  # 0.3 s: only where something is folded

    feeds = {n: w.array() for n, w in zip(filter(None, node.input), sources, strict=True)}
    values = [
        [onnx.helper.make_empty_tensor_value_info(n) for n in x] for x in (feeds, node.output)
    ]
    graph = onnx.helper.make_graph([node], "fold", *values)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, feeds)]


def _bytes(attribute: onnx.AttributeProto) -> bytes:
    return attribute.SerializeToString(deterministic=True)
