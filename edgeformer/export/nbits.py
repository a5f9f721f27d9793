"""Put quantized matrices into a traced graph: ONNX Runtime's MatMulNBits and GatherBlockQuantized.

Both are operators of its own domain, for a CPU; TensorRT has neither.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import torch

from edgeformer.contract import STEP
from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced
from edgeformer.export.qdq import ADDED, smoothed
from edgeformer.nn.quantize import Blocks
from edgeformer.nn.quantize.eight import EightBits
from edgeformer.nn.quantize.offsets import joined

DOMAIN = "com.microsoft"
TRANSPOSED = ".transpose"  # how `clean` names the weight of a plain product
FLOAT_ACTIVATIONS, INT8_ACTIVATIONS = 1, 4  # accuracy_level of MatMulNBits


def with_eight_bits(traced: Traced, found: EightBits) -> Traced:
    """The graph with these blocks, and what was smoothed for them. It must come from a skeleton: of
    two equal weights a trace keeps one, and smoothing tells them apart.

    Raises EdgeformerError where a matrix or a smoothed parameter is not found.
    """
    names = {weight.name for weight in traced.weights.values()}
    for name in found.folded:
        if not names & {name, name + TRANSPOSED, name + ADDED}:
            raise EdgeformerError(f"{traced.contract.file} has no {name} that could be smoothed")
    weights = {value: smoothed(w, found.folded) for value, w in traced.weights.items()}
    made = with_blocks(dataclasses.replace(traced, weights=weights), found.blocks)
    return made if found.rows is None else _rows_divided(made, found.rows)


def _rows_divided(traced: Traced, by: torch.Tensor) -> Traced:
    """The graph whose embedding divides what it looks up: the table is scaled for the head."""
    nodes, share = [], "embedding.share"
    for node in traced.nodes:
        nodes.append(node)
        if node.op_type == "GatherBlockQuantized":
            rows, node.output[0] = node.output[0], node.output[0] + ".rows"
            nodes.append(
                onnx.helper.make_node(
                    "Mul", [node.output[0], share], [rows], name=node.name + ".share"
                )
            )
    weights = traced.weights | {share: Weight(share, lambda: (1.0 / by).numpy())}
    return dataclasses.replace(traced, nodes=nodes, weights=weights)


def with_blocks(
    traced: Traced, blocks: dict[str, Blocks], accuracy_level: int = INT8_ACTIVATIONS
) -> Traced:
    """The graph with these parameters (named as in the decoder) in blocks.

    accuracy_level: 4 rounds a product's inputs to 8 bits, block by block, which is what makes it
    fast; 1 leaves them in float32. Raises EdgeformerError where a matrix is not found, or used by
    an operator that has no quantized form.
    """
    weights = dict(traced.weights)
    nodes, used = [], set()
    for node in traced.nodes:
        found = [value for value in node.input if _parameter(traced, value) in blocks]
        if not found:
            nodes.append(node)
            continue
        name = _parameter(traced, found[0])
        used.add(name)
        made, parts = _replaced(traced, node, found[0], name, blocks[name], accuracy_level)
        nodes += made
        weights.update(parts)
    if lost := sorted(set(blocks) - used):
        raise EdgeformerError(f"{traced.contract.file} has no {lost[0]} that could be quantized")
    still = {value for node in nodes for value in node.input}
    return dataclasses.replace(
        traced, nodes=nodes, weights={v: w for v, w in weights.items() if v in still}
    )


def _parameter(traced: Traced, value: str) -> str:
    """The parameter that a value is, turned round or not; "" if it is none."""
    return traced.weights[value].name.removesuffix(TRANSPOSED) if value in traced.weights else ""


def _replaced(
    traced: Traced,
    node: onnx.NodeProto,
    value: str,
    name: str,
    blocks: Blocks,
    accuracy_level: int,
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    if node.op_type == "Gather" and node.input[0] == value:
        return _gather(node, name, blocks)
    if node.op_type == "MatMul" and node.input[1] == value and value.endswith(TRANSPOSED):
        return _product(traced, node, name, blocks, accuracy_level)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if (
        node.op_type == "Gemm"
        and node.input[1] == value
        and attributes.get("transB") == 1
        and not attributes.get("transA", 0)
        and attributes.get("alpha", 1.0) == 1.0
    ):
        made, parts = _product(traced, node, name, blocks, accuracy_level)
        if _adds(traced, node, attributes):
            made[-1].output[0] = node.output[0] + ".product"
            made.append(
                onnx.helper.make_node(
                    "Add",
                    [made[-1].output[0], node.input[2]],
                    [node.output[0]],
                    name=node.name + ".bias",
                )
            )
        return made, parts
    raise EdgeformerError(
        f"{name} is read by node {node.name} ({node.op_type}), which has no quantized form; "
        "leave this parameter out"
    )


def _adds(traced: Traced, node: onnx.NodeProto, attributes: dict[str, object]) -> bool:
    """Whether a Gemm's third input adds anything: a head without a bias has a zero there."""
    if len(node.input) < 3 or not node.input[2] or attributes.get("beta", 1.0) == 0.0:
        return False
    bias = traced.weights.get(node.input[2])
    constant = bias is not None and not bias.name  # others are known once they are loaded
    return not (constant and not bias.array().any())


def _gather(
    node: onnx.NodeProto, name: str, blocks: Blocks
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    rows, width = blocks.shape
    if blocks.offsets is not None:
        raise EdgeformerError(
            f"{name} is stored as Q4_1, which a table of rows cannot be; quantize it anew"
        )
    if width % blocks.format.block:
        raise EdgeformerError(
            f"{name} has rows of {width} numbers, which are no whole blocks of "
            f"{blocks.format.block}; leave it out, or choose --precision int8-dynamic"
        )
    # The very bytes of the product's matrix, so that a tied table is stored once.
    parts = {key: array.reshape(rows, -1) for key, array in blocks.packed().items()}
    inputs = [f"{name}.{key}.rows" for key in parts]
    made = onnx.helper.make_node(
        "GatherBlockQuantized",
        [inputs[0], node.input[1], *inputs[1:]],
        list(node.output),
        name=node.name,
        domain=DOMAIN,
        gather_axis=0,
        quantize_axis=1,
        block_size=blocks.format.block,
        bits=blocks.format.bits,
    )
    return [made], _stored(name, parts, ".rows")


def _product(
    traced: Traced, node: onnx.NodeProto, name: str, blocks: Blocks, accuracy_level: int
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    made, parts, x = [], {}, node.input[0]
    if blocks.offsets is not None:
        if blocks.inputs % blocks.format.block:
            raise EdgeformerError(
                f"{name} has {blocks.inputs} inputs, no whole blocks of {blocks.format.block}"
            )
        whole = joined(blocks)
        # [1, T, inputs] in the graph of dialect `ort` but for its head, which is no MatMul
        deep = traced.contract.file == f"{STEP}.onnx" and node.op_type == "MatMul"
        made, parts = _means(node, name, blocks, deep)
        x, blocks = node.output[0] + ".inputs", whole.blocks
        inputs = [node.input[0], *[node.output[0] + ".means"] * whole.copies]
        concat = onnx.helper.make_node("Concat", inputs, [x], name=node.name + ".Concat", axis=-1)
        made.append(concat)
    packed = blocks.packed()
    outputs, inputs = blocks.shape
    product = onnx.helper.make_node(
        "MatMulNBits",
        [x, *(f"{name}.{key}" for key in packed)],
        list(node.output),
        name=node.name,
        domain=DOMAIN,
        K=inputs,
        N=outputs,
        bits=blocks.format.bits,
        block_size=blocks.format.block,
        accuracy_level=accuracy_level,
    )
    return [*made, product], parts | _stored(name, packed, "")


def _means(
    node: onnx.NodeProto, name: str, blocks: Blocks, deep: bool
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    """The mean of each block of inputs, [T, blocks]; of a `deep` input [1, T, blocks], in one."""
    x, out, block = node.input[0], node.output[0] + ".means", blocks.format.block
    if deep:
        label, sizes = f"{node.name}.AveragePool", [block]
        pool = {"name": label, "kernel_shape": sizes, "strides": sizes}
        return [onnx.helper.make_node("AveragePool", [x], [out], **pool)], {}
    sizes, split = np.array([-1, blocks.inputs // block, block], np.int64), f"{name}.blocks"
    mean = {"axes": [2], "keepdims": 0}
    return [
        onnx.helper.make_node("Reshape", [x, split], [out + ".split"], name=f"{node.name}.Reshape"),
        onnx.helper.make_node(
            "ReduceMean", [out + ".split"], [out], name=f"{node.name}.ReduceMean", **mean
        ),
    ], {split: Weight(split, lambda: sizes)}


def _stored(name: str, parts: dict[str, np.ndarray], suffix: str) -> dict[str, Weight]:
    return {
        f"{name}.{key}{suffix}": Weight(f"{name}.{key}{suffix}", lambda array=array: array)
        for key, array in parts.items()
    }
