"""Put matrices of int8 into a traced graph, with plain ONNX operators of opset 13.

A product becomes DynamicQuantizeLinear (its input, to uint8 with one scale for the whole step) and
MatMulInteger; onnxruntime fuses them into one node, from 1.10 (the last one for Python 3.6) on.
The weights are int8 and symmetric, with a scale for each output. TensorRT 8.2 has neither operator.

On an x86 CPU without VNNI onnxruntime adds pairs of these products in 16 bits, which saturate where
both are near the end of their ranges; ARM and VNNI do not. A bundle's golden run tells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np
import onnx

from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced

TRANSPOSED = ".transpose"  # how `clean` names the weight of a plain product
MOST = 127  # of an int8; -128 is not used, so that a weight and its negative are alike
SMALLEST = 1e-30  # numbers that nothing is divided by

Parts = dict[str, Weight]


def with_int8(traced: Traced, names: Collection[str], by_row: Collection[str] = ()) -> Traced:
    """The graph with these parameters (named as in the decoder) in int8.

    by_row: those whose inputs are divided by each row's largest number first, and their outputs
    multiplied: six nodes in place of one, for inputs in which one token's are far larger than all
    others' and would leave these few of the 256 steps. Raises EdgeformerError where a matrix is
    not found, or read by an operator that has no such form; when it is stored, if it is not finite.
    """
    rewrite = _Rewrite(traced, frozenset(by_row))
    if lost := sorted(set(by_row) - set(names)):
        raise EdgeformerError(f"{lost[0]} is to be quantized by row, but not at all")
    used = set()
    for node in traced.nodes:
        found = next((v for v in node.input if rewrite.parameter(v) in names), None)
        if found is None:
            rewrite.nodes.append(node)
        else:
            used.add(rewrite.parameter(found))
            rewrite.replace(node, found)
    if lost := sorted(set(names) - used):
        raise EdgeformerError(f"{traced.contract.file} has no {lost[0]} that could be quantized")
    still = {value for node in rewrite.nodes for value in node.input}
    weights = {v: w for v, w in {**traced.weights, **rewrite.weights}.items() if v in still}
    return dataclasses.replace(traced, nodes=rewrite.nodes, weights=weights)


class _Rewrite:
    """The nodes and weights of the new graph while it is made."""

    def __init__(self, traced: Traced, by_row: frozenset[str]) -> None:
        self.old, self.by_row = traced.weights, by_row
        self.nodes: list[onnx.NodeProto] = []
        self.weights: Parts = {}
        self._rounded: dict[tuple[str, bool], tuple[str, ...]] = {}  # by input: what is made of it
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
        out, by_row = node.output[0], name in self.by_row
        matrix, scales = self._stored(name, value, turned=True)
        steps, scale, zero, most = self._input(node, by_row)
        self._add(node, "MatMulInteger", [steps, matrix, zero], out + ".sums")
        self._add(node, "Cast", [out + ".sums"], out + ".float", to=onnx.TensorProto.FLOAT)
        self._add(node, "Mul", [scale, scales], out + ".scales")
        last = [("Mul", out + ".scales")]
        last += [("Mul", most)] if by_row else []
        last += [("Add", bias)] if bias else []
        made = out + ".float"
        for i, (operator, by) in enumerate(last):
            result = out if i == len(last) - 1 else f"{out}.{i}"
            self._add(node, operator, [made, by], result)
            made = result

    def _input(self, node: onnx.NodeProto, by_row: bool) -> tuple[str, ...]:
        """uint8 [T, inputs], its scale and zero point, and each row's largest number [T, 1]."""
        x = node.input[0]
        if (x, by_row) in self._rounded:
            return self._rounded[x, by_row]
        source, most = x, ""
        if by_row:
            self.weights["smallest"] = Weight("", lambda: np.array(SMALLEST, np.float32))
            source, most = x + ".shares", x + ".most"
            self._add(node, "Abs", [x], x + ".abs")
            self._add(node, "ReduceMax", [x + ".abs"], x + ".max", axes=[-1], keepdims=1)
            self._add(node, "Max", [x + ".max", "smallest"], most)
            self._add(node, "Div", [x, most], source)
        made = [f"{source}.{part}" for part in ("steps", "scale", "zero")]
        self._add(node, "DynamicQuantizeLinear", [source], *made)
        self._rounded[x, by_row] = (*made, most)
        return self._rounded[x, by_row]

    def _rows(self, node: onnx.NodeProto, name: str, value: str) -> None:
        """ids [T] -> rows of the table [T, width]; a tied one lies there as the head wants it."""
        out, ids, turned = node.output[0], node.input[1], name in self._products
        table, scales = self._stored(name, value, turned)
        column = scales + ".column"
        self.weights[column] = Weight(
            column, lambda scales=self.weights[scales]: scales.array()[:, None]
        )
        self._add(node, "Gather", [table, ids], out + ".int8", axis=int(turned))
        if turned:
            self._add(node, "Transpose", [out + ".int8"], out + ".rows", perm=[1, 0])
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
