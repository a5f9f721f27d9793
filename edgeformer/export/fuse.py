"""Fewer nodes for ONNX Runtime on a CPU: a norm with the sum before it, and x * sigmoid(x).

Each of its nodes costs microseconds whatever it computes. The runtime's own optimizer finds some
of this when it loads a model, and more or less of it in each release; so it stands in the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from edgeformer.export.clean import Weight, used

DOMAIN = "com.microsoft"


def fused_nodes(
    nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Weight], outputs: Sequence[str]
) -> list[onnx.NodeProto]:
    """The same graph in fewer nodes. `outputs` are those of the graph."""
    patterns = _Patterns({name: node for node in nodes for name in node.output}, weights)
    norms = {node.output[0]: patterns.norm(node) for node in nodes}
    sums: dict[str, str] = {}  # a sum -> the result of the norm that also gives it
    for node in nodes:
        found = norms[node.output[0]]
        # of the forms that end with one another the longer, of several norms of a sum the first
        if found is not None and sums.get(found.output[3], node.input[0]) == node.input[0]:
            sums[found.output[3]] = node.output[0]
    made, results = [], set(sums.values())
    for node in nodes:
        if node.output[0] in results:
            made.append(norms[node.output[0]])
        elif node.output[0] not in sums:
            made.append(patterns.silu(node) or node)
    return _in_order(used(made, tuple(outputs)))


@dataclass(frozen=True)
class _Patterns:
    made_by: Mapping[str, onnx.NodeProto]
    weights: Mapping[str, Weight]

    def norm(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        """The scaled (and shifted) norm of a sum that ends with this node."""
        shift = []
        scaled = node
        if node.op_type == "Add" and node.input[1] in self.weights:
            scaled, shift = self._made(node.input[0], "Mul"), [node.input[1]]
        if scaled is None or scaled.op_type != "Mul" or scaled.input[1] not in self.weights:
            return None
        divided = self._made(scaled.input[0], "Div")
        root = divided and self._made(divided.input[1], "Sqrt")
        variance = root and self._made(root.input[0], "Add")
        mean = variance and self._made(variance.input[0], "ReduceMean")
        square = mean and self._made(mean.input[0], "Pow")
        if not square or square.input[0] != divided.input[0]:
            return None
        x, kind = divided.input[0], "SkipSimplifiedLayerNormalization"
        centered = self._made(x, "Sub")
        if centered is not None:
            x, kind = centered.input[0], "SkipLayerNormalization"
        total = self._made(x, "Add")
        if total is None or (shift and centered is None) or self.weights.keys() & set(total.input):
            return None
        inputs = [*total.input, scaled.input[1], *shift]
        return onnx.helper.make_node(
            kind,
            inputs,
            [node.output[0], "", "", x],
            name=node.name,
            domain=DOMAIN,
            epsilon=float(self.weights[variance.input[1]].array()),
        )

    def silu(self, node: onnx.NodeProto) -> onnx.NodeProto | None:
        if node.op_type != "Mul":
            return None
        gate = self._made(node.input[1], "Sigmoid")
        if gate is None or gate.input[0] != node.input[0]:
            return None
        names = {"name": node.name, "domain": DOMAIN}
        return onnx.helper.make_node("QuickGelu", [gate.input[0]], node.output, alpha=1.0, **names)

    def _made(self, value: str, operator: str) -> onnx.NodeProto | None:
        node = self.made_by.get(value)
        return node if node is not None and node.op_type == operator else None


def _in_order(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Nodes as they stand, but none before the one that now gives the sum it reads."""
    ready: set[str] = set()
    ordered, waiting = [], list(nodes)
    given = {name for node in nodes for name in node.output if name}
    while waiting:
        later = []
        for node in waiting:
            if (set(node.input) & given) <= ready:
                ordered.append(node)
                ready.update(node.output)
            else:
                later.append(node)
        waiting = later
    return ordered
