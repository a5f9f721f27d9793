"""Products of float32 whose weights ONNX Runtime reads where they lie in the file.

Left to itself the runtime copies each matrix into an order of its own when it loads a model: half
a second and a second copy. Without that copy it reads a matrix [in, out] across its rows, half as
fast. Cut into panels of 32 outputs, each of which lies in one piece, it needs no copy and is read
from end to end: measured in docs/cpu.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import onnx

from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced
from edgeformer.export.nbits import TRANSPOSED

WIDTH = 32  # outputs of a panel
BEYOND = 2**40  # more than any token id: x // BEYOND is 0, x % BEYOND is x


def with_panels(traced: Traced, shapes: Mapping[str, tuple[int, ...]]) -> Traced:
    """The graph with the matrix of each product in panels [out / 32, in, 32].

    `shapes` of the parameters, by the decoder's names. Outputs that are no multiple of 32 are made
    one with zeros, and cut off again. A table of the embedding that is also the head is read from
    the head's panels.
    """
    rewrite = _Rewrite(traced, shapes)
    nodes = [made for node in traced.nodes for made in rewrite.product(node) or [node]]
    nodes = [made for node in nodes for made in rewrite.table(node) or [node]]
    read = {value for node in nodes for value in node.input}
    weights = {v: w for v, w in {**traced.weights, **rewrite.weights}.items() if v in read}
    return dataclasses.replace(traced, nodes=nodes, weights=weights)


class _Rewrite:
    def __init__(self, traced: Traced, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.traced, self.shapes = traced, shapes
        self.weights: dict[str, Weight] = {}
        self.panels: dict[str, str] = {}  # of a parameter

    def product(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """MatMul and Gemm of a parameter: [..., T, in] -> [..., T, out]."""
        if node.op_type not in ("MatMul", "Gemm") or node.input[1] not in self.traced.weights:
            return None
        value = node.input[1]
        name = self.traced.weights[value].name.removesuffix(TRANSPOSED)
        if len(self.shapes.get(name, ())) != 2:
            return None
        if (node.op_type == "Gemm") == value.endswith(TRANSPOSED):
            raise EdgeformerError(f"{node.name} ({node.op_type}) reads {value} turned round")
        outputs = self.shapes[name][0]
        count = -(-outputs // WIDTH)
        # a Gemm has rows alone, what a MatMul reads has a batch of one before them
        batch = () if node.op_type == "Gemm" else (1,)
        out, width = node.output[0], count * WIDTH
        steps = [
            ("MatMul", [node.input[0], self._panels(name, value)], ".panels", {}),  # [P, T, 32]
            ("Transpose", [out + ".panels"], ".rows", {"perm": [1, 0, 2]}),  # [T, P, 32]
            ("Reshape", [out + ".rows", self._integers(*batch, -1, width)], ".whole", {}),
        ]
        if width != outputs:
            cut = [self._integers(n) for n in (0, outputs, -1)]
            steps.append(("Slice", [out + ".whole", *cut], ".cut", {}))
        if len(node.input) > 2 and node.input[2]:
            steps.append(("Add", [out + steps[-1][2], node.input[2]], ".biased", {}))
        made = []
        for operator, inputs, suffix, attributes in steps:
            label = node.name if operator == "MatMul" else f"{node.name}.{operator}"
            made.append(
                onnx.helper.make_node(operator, inputs, [out + suffix], name=label, **attributes)
            )
        made[-1].output[0] = out
        return made

    def table(self, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """A Gather of rows [T, in] of what has become panels: number i of row t stands in panel
        t // 32 at [i, t % 32]."""
        if node.op_type != "Gather" or node.input[0] not in self.traced.weights:
            return None
        name = self.traced.weights[node.input[0]].name
        if name not in self.panels:
            return None
        inner = self.shapes[name][1]
        ramp = np.zeros((inner, 3), np.int64)
        ramp[:, 1] = np.arange(inner)
        divisor, modulus = (WIDTH, BEYOND, 1), (BEYOND, BEYOND, WIDTH)
        out, ids = node.output[0], node.input[1]
        steps = [
            ("Cast", [ids], ".ids", {"to": onnx.TensorProto.INT64}),
            ("Unsqueeze", [out + ".ids", self._integers(-2, -1)], ".each", {}),  # [1, T, 1, 1]
            ("Div", [out + ".each", self._integers(*divisor)], ".divided", {}),
            ("Mod", [out + ".divided", self._integers(*modulus)], ".place", {}),  # panel, 0, column
            ("Add", [out + ".place", self._constant("ramp", ramp)], ".places", {}),
            ("GatherND", [self.panels[name], out + ".places"], "", {}),  # [1, T, in]
        ]
        return [
            onnx.helper.make_node(
                operator, inputs, [out + suffix], name=f"{node.name}.{operator}", **attributes
            )
            for operator, inputs, suffix, attributes in steps
        ]

    def _panels(self, name: str, value: str) -> str:
        weight, key = self.traced.weights[value], f"{name}.panels"

        def array() -> np.ndarray:
            matrix = weight.array()  # [in, out] or [out, in]
            matrix = matrix.T if value.endswith(TRANSPOSED) else matrix
            missing = -len(matrix) % WIDTH
            if missing:
                matrix = np.concatenate(
                    [matrix, np.zeros_like(matrix, shape=(missing, matrix.shape[1]))]
                )
            return matrix.reshape(-1, WIDTH, matrix.shape[1]).transpose(0, 2, 1)

        self.weights[key] = Weight(key, array)
        self.panels[name] = key
        return key

    def _integers(self, *numbers: int) -> str:
        return self._constant("x".join(map(str, numbers)), np.array(numbers, np.int64))

    def _constant(self, name: str, array: np.ndarray) -> str:
        self.weights[f"panels.{name}"] = Weight(f"panels.{name}", lambda: array, small=True)
        return f"panels.{name}"
