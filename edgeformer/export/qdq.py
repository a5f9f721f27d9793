"""Put products in INT8 into a traced graph: QuantizeLinear and DequantizeLinear of opset 13.

The weights are stored as int8 [inputs, outputs] behind a DequantizeLinear with a scale a column;
what a product is given goes through a pair with one scale. TensorRT makes one INT8 kernel of the
three. Everything else stays float32, the bias of a product too.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import torch

from edgeformer.contract import FP32_PREFIX
from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced
from edgeformer.nn.quantize.int8 import HEAD, Int8, Product

TRANSPOSED, ADDED = ".transpose", ".add"  # how `clean` names what it makes of a weight
ZERO = "int8.zero"


def with_int8(traced: Traced, found: Int8) -> Traced:
    """The graph with these products in INT8. It must come from a skeleton: of two equal weights a
    trace keeps one, and smoothing tells them apart.

    Raises EdgeformerError where a product or a parameter of `found` is not in the graph.
    """
    made = _Rewriting(traced, found)
    for node in traced.nodes:
        made.add(node)
    if lost := sorted(set(found.products) - made.done):
        raise EdgeformerError(f"{traced.contract.file} has no product {lost[0]}")
    used = {value for node in made.nodes for value in node.input}
    weights = {value: weight for value, weight in made.weights.items() if value in used}
    names = {weight.name for weight in weights.values()}
    for name in found.folded:
        if not names & {name, name + TRANSPOSED, name + ADDED}:
            raise EdgeformerError(f"{traced.contract.file} has no {name} that could be smoothed")
    return dataclasses.replace(traced, nodes=made.nodes, weights=weights)


class _Rewriting:
    """The new graph as it grows."""

    def __init__(self, traced: Traced, found: Int8) -> None:
        self.found = found
        self.nodes: list[onnx.NodeProto] = []
        self.weights = {v: smoothed(w, found.folded) for v, w in traced.weights.items()}
        self.weights[ZERO] = Weight("", lambda: np.zeros((), np.int8), small=True)
        self.done: set[str] = set()
        self.rounded: set[str] = set()  # values behind a pair: two products may share one

    def add(self, node: onnx.NodeProto) -> None:
        name = self._product(node)
        if name not in self.found.products:
            self.nodes.append(node)
            return
        product = self.found.products[name]
        self.done.add(name)
        inputs = [self._inputs(node, product), self._matrix(name, product)]
        bias = self._bias(node)
        # the product with the vocabulary ends in float32, whatever the precision of an engine
        after = FP32_PREFIX if name == HEAD else ""
        out = node.output[0] + (".product" if bias else "")
        self._node("MatMul", inputs, out, node.name)
        if bias:
            self._node("Add", [out, bias], node.output[0], f"{after}{node.name}.bias")

    def _product(self, node: onnx.NodeProto) -> str:
        """The module whose product a node is, or ""."""
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in self.weights:
            return ""
        name = self.weights[node.input[1]].name.removesuffix(TRANSPOSED).removesuffix(".weight")
        return HEAD if name == "embedding" else name  # tied

    def _inputs(self, node: onnx.NodeProto, product: Product) -> str:
        """Its first input, rounded."""
        value = node.input[0]
        scale = self._constant(np.float32(product.input_scale))
        label = f"{value}.{scale}"
        if label not in self.rounded:
            self.rounded.add(label)
            parts = [scale, ZERO]
            at = node.name.rpartition("/")[0]
            self._node("QuantizeLinear", [value, *parts], label + ".int8", at + "/QuantizeLinear")
            self._node("DequantizeLinear", [label + ".int8", *parts], label, at + "/Dequantize")
        return label

    def _matrix(self, name: str, product: Product) -> str:
        arrays = {
            f"{name}.int8": product.values.t().contiguous().numpy(),  # [inputs, outputs]
            f"{name}.scales": product.scales.numpy(),
            f"{name}.zeros": np.zeros(len(product.scales), np.int8),
        }
        self.weights |= {key: Weight(key, lambda a=array: a) for key, array in arrays.items()}
        at = name.replace(".", "/")
        self._node(
            "DequantizeLinear", list(arrays), f"{name}.dense", f"{at}/weight/Dequantize", axis=1
        )
        return f"{name}.dense"

    def _bias(self, node: onnx.NodeProto) -> str:
        """The third input of a Gemm, or "" where there is none or it is 0."""
        value = node.input[2] if len(node.input) > 2 else ""
        weight = self.weights.get(value)
        if weight is not None and not weight.name and not weight.array().any():
            return ""  # a decoder without a head bias adds one zero
        return value

    def _constant(self, number: np.float32) -> str:
        value = f"int8.scale.{float(number)!r}"
        self.weights[value] = Weight("", lambda: np.array(number), small=True)
        return value

    def _node(
        self, operator: str, inputs: list[str], output: str, name: str, **attributes: int
    ) -> None:
        self.nodes.append(
            onnx.helper.make_node(operator, inputs, [output], name=name, **attributes)
        )


def smoothed(weight: Weight, folded: dict[str, torch.Tensor]) -> Weight:
    """What takes its place where its parameter is another one, by name."""
    name = weight.name.removesuffix(TRANSPOSED).removesuffix(ADDED)
    if name not in folded:
        return weight
    array = folded[name].cpu()
    if weight.name.endswith(TRANSPOSED):
        array = array.t()
    elif weight.name.endswith(ADDED):  # a norm that scales by 1 + weight
        array = 1.0 + array
    return Weight(weight.name, lambda: array.numpy())
