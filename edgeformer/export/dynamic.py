"""Put matrices of int8 into a traced graph, with plain ONNX operators of opset 13.

A product becomes DynamicQuantizeLinear (its input, to uint8 with one scale for the whole step) and
MatMulInteger; onnxruntime fuses them into one node, from 1.10 (the last one for Python 3.6) on.
The weights are int8 and symmetric, with a scale for each output. TensorRT 8.2 has neither operator.

On an x86 CPU without VNNI onnxruntime adds pairs of these products in 16 bits, which saturate where
both are near the end of their ranges; ARM and VNNI do not. A bundle's golden run tells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import onnx

from edgeformer.contract import STEP
from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced
from edgeformer.export.qdq import ADDED, TRANSPOSED, smoothed
from edgeformer.nn.quantize.int8_dynamic import DynamicInt8
from edgeformer.nn.quantize.int8_forms import FINER, MOST, SMALLEST, Form


def with_dynamic(traced: Traced, found: DynamicInt8) -> Traced:
    """The graph with these products in int8, smoothed. It must come from a skeleton: of two equal
    weights a trace keeps one, and smoothing tells them apart."""
    names = {weight.name for weight in traced.weights.values()}
    for name in found.folded:
        if not names & {name, name + TRANSPOSED, name + ADDED}:
            raise EdgeformerError(f"{traced.contract.file} has no {name} that could be smoothed")
    weights = {value: smoothed(w, found.folded) for value, w in traced.weights.items()}
    return with_int8(dataclasses.replace(traced, weights=weights), found.forms)


def with_int8(traced: Traced, forms: Mapping[str, Form]) -> Traced:
    """The graph with these parameters (named as in the decoder) in int8.

    Raises EdgeformerError where a matrix is not found, or read by an operator that has no such
    form; when it is stored, if it is not finite.
    """
    rewrite = _Rewrite(traced, forms)
    used = set()
    for node in traced.nodes:
        found = next((v for v in node.input if rewrite.parameter(v) in forms), None)
        if found is None:
            rewrite.nodes.append(node)
        else:
            used.add(rewrite.parameter(found))
            rewrite.replace(node, found)
    if lost := sorted(set(forms) - used):
        raise EdgeformerError(f"{traced.contract.file} has no {lost[0]} that could be quantized")
    still = {value for node in rewrite.nodes for value in node.input}
    weights = {v: w for v, w in {**traced.weights, **rewrite.weights}.items() if v in still}
    return dataclasses.replace(traced, nodes=rewrite.nodes, weights=weights)


class _Rewrite:
    """The nodes and weights of the new graph while it is made."""

    def __init__(self, traced: Traced, forms: Mapping[str, Form]) -> None:
        self.old, self.forms = traced.weights, forms
        self.deep = traced.contract.file == f"{STEP}.onnx"  # ids [1, T] in place of [T]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Weight] = {}
        self._rounded: dict[tuple[str, Form], tuple[str, ...]] = {}  # by input: what is made of it
        # Parameters of products: a table among them is stored turned round, once for both.
        self._products = {
            self.parameter(value)
            for node in traced.nodes
            for value in node.input
            if node.op_type in ("MatMul", "Gemm")
        }

    def parameter(self, value: str) -> str:
        """The parameter that a value is, turned round or not; "" if it is none."""
        return self.old[value].name.removesuffix(TRANSPOSED) if value in self.old else ""

    def replace(self, node: onnx.NodeProto, value: str) -> None:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        name, bias = self.parameter(value), ""
        if node.op_type == "Gather" and node.input[0] == value and not attributes.get("axis", 0):
            return self._rows(node, name, value)
        turned = value.endswith(TRANSPOSED)
        plain = node.op_type == "MatMul" and node.input[1] == value and turned
        if node.op_type == "Gemm" and node.input[1] == value and attributes.get("transB") == 1:
            plain = not attributes.get("transA", 0) and attributes.get("alpha", 1.0) == 1.0
            if len(node.input) > 2 and attributes.get("beta", 1.0) == 1.0:
                bias = node.input[2]
        if not plain:
            raise EdgeformerError(
                f"{name} is read by node {node.name} ({node.op_type}), which has no int8 form; "
                "leave this parameter out"
            )
        self._product(node, name, value, bias)

    def _product(self, node: onnx.NodeProto, name: str, value: str, bias: str) -> None:
        """x [T, inputs] -> [T, outputs]."""
        out, form = node.output[0], self.forms[name]
        matrix, scales = self._stored(name, value, turned=True)
        steps, scale, zero, *most = self._input(node, form)
        made = out + ".float"
        self._add(node, "MatMulInteger", [steps, matrix, zero], out + ".sums")
        self._add(node, "Cast", [out + ".sums"], made, to=onnx.TensorProto.FLOAT)
        if form is Form.FINE:
            made = self._joined(node, made)
        self._add(node, "Mul", [scale, scales], out + ".scales")
        last = [("Mul", out + ".scales"), *(("Mul", by) for by in most)]
        last += [("Add", bias)] if bias else []
        for i, (operator, by) in enumerate(last):
            result = out if i == len(last) - 1 else f"{out}.{i}"
            self._add(node, operator, [made, by], result)
            made = result

    def _input(self, node: onnx.NodeProto, form: Form) -> tuple[str, ...]:
        """uint8 [T, inputs] ([2 T, inputs] if FINE), its scale and zero point; and but for PLAIN
        each row's largest number, [T, 1]."""
        x = node.input[0]
        if (x, form) not in self._rounded:
            if form is Form.PLAIN:
                self._rounded[x, form] = self._dynamic(node, x)
            else:
                shares, most = self._shares(node, x)
                make = self._dynamic if form is Form.ROWS else self._in_two
                self._rounded[x, form] = (*make(node, shares), most)
        return self._rounded[x, form]

    def _dynamic(self, node: onnx.NodeProto, x: str) -> tuple[str, ...]:
        made = tuple(f"{x}.{part}" for part in ("steps", "scale", "zero"))
        self._add(node, "DynamicQuantizeLinear", [x], *made)
        return made

    def _shares(self, node: onnx.NodeProto, x: str) -> tuple[str, str]:
        """x divided by each row's largest magnitude: from -1 to 1."""
        smallest = self._constant("smallest", np.array(SMALLEST, np.float32))
        self._add(node, "Abs", [x], x + ".abs")
        self._add(node, "ReduceMax", [x + ".abs"], x + ".max", axes=[-1], keepdims=1)
        self._add(node, "Max", [x + ".max", smallest], x + ".most")
        self._add(node, "Div", [x, x + ".most"], x + ".shares")
        return x + ".shares", x + ".most"

    def _in_two(self, node: onnx.NodeProto, x: str) -> tuple[str, str, str]:
        """Of numbers from -1 to 1 the steps of 8 bits, and below them those of what is left."""
        scale = self._constant("step", np.array(1 / MOST, np.float32))
        zero = self._constant("middle", np.array(128, np.uint8))
        finer = self._constant("finer", np.array(FINER, np.float32))
        self._add(node, "QuantizeLinear", [x, scale, zero], x + ".coarse")
        self._add(node, "DequantizeLinear", [x + ".coarse", scale, zero], x + ".held")
        self._add(node, "Sub", [x, x + ".held"], x + ".left")
        self._add(node, "Mul", [x + ".left", finer], x + ".larger")
        self._add(node, "QuantizeLinear", [x + ".larger", scale, zero], x + ".fine")
        self._add(node, "Concat", [x + ".coarse", x + ".fine"], x + ".both", axis=0)
        return x + ".both", scale, zero

    def _joined(self, node: onnx.NodeProto, made: str) -> str:
        """[2 T, outputs] -> [T, outputs]: coarse + fine / FINER."""
        share = self._constant("share", np.array(1 / FINER, np.float32))
        halves = [made + ".coarse", made + ".fine"]
        self._add(node, "Split", [made], *halves, axis=0)
        self._add(node, "Mul", [halves[1], share], made + ".smaller")
        self._add(node, "Add", [halves[0], made + ".smaller"], made + ".joined")
        return made + ".joined"

    def _constant(self, name: str, array: np.ndarray) -> str:
        self.weights["int8." + name] = Weight("", lambda: array, small=True)
        return "int8." + name

    def _rows(self, node: onnx.NodeProto, name: str, value: str) -> None:
        """ids [T] or [1, T] -> rows of the table, [T, width] or [1, T, width]. A tied table lies
        there as the head wants it."""
        out, ids, turned = node.output[0], node.input[1], name in self._products
        perm = [1, 2, 0] if self.deep else [1, 0]
        table, scales = self._stored(name, value, turned)
        column = scales + ".column"
        self.weights[column] = Weight(
            column, lambda scales=self.weights[scales]: scales.array()[:, None]
        )
        self._add(node, "Gather", [table, ids], out + ".int8", axis=int(turned))
        if turned:
            self._add(node, "Transpose", [out + ".int8"], out + ".rows", perm=perm)
        rows = out + (".rows" if turned else ".int8")
        self._add(node, "Cast", [rows], out + ".float", to=onnx.TensorProto.FLOAT)
        self._add(node, "Gather", [column, ids], out + ".scales", axis=0)  # [T, 1]
        self._add(node, "Mul", [out + ".float", out + ".scales"], out)

    def _stored(self, name: str, value: str, turned: bool) -> tuple[str, str]:
        """The names of the int8 matrix and its scales. They are computed when they are stored."""
        matrix, scales = f"{name}.int8", f"{name}.scales"
        source = self.old[value]

        def weight() -> np.ndarray:  # float32 [outputs, inputs]
            array = source.array()
            return array.T if source.name.endswith(TRANSPOSED) else array

        def steps() -> np.ndarray:
            found = int8_steps(name, weight())[0]
            return np.ascontiguousarray(found.T) if turned else found

        self.weights[matrix] = Weight(matrix, steps)
        self.weights[scales] = Weight(scales, lambda: int8_steps(name, weight())[1])
        return matrix, scales

    def _add(
        self,
        like: onnx.NodeProto,
        operator: str,
        inputs: list[str],
        *outputs: str,
        **attributes: object,
    ) -> None:
        label = f"{like.name}.{operator}.{len(self.nodes)}"
        self.nodes.append(
            onnx.helper.make_node(operator, inputs, outputs, name=label, **attributes)
        )


def int8_steps(name: str, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 [outputs, inputs] and float32 scales [outputs] of a matrix; `name` is for an error."""
    largest = np.abs(weight).max(axis=1)
    if not np.isfinite(largest).all():
        row = int(np.flatnonzero(~np.isfinite(largest))[0])
        raise EdgeformerError(
            f"{name} has a number that is not finite, in row {row}, which int8 cannot hold; "
            "repair the checkpoint or leave this parameter out"
        )
    scales = (largest / np.float32(MOST)).astype(np.float32)
    scales = np.where(scales < SMALLEST, np.float32(1.0), scales)  # a row of zeros, or as good as
    return np.rint(weight / scales[:, None]).astype(np.int8), scales
