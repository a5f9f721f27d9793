"""Put quantized matrices into a traced graph: ONNX Runtime's MatMulNBits and GatherBlockQuantized.

Both are operators of its own domain, for a CPU; TensorRT has neither.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx

from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced
from edgeformer.nn.quantize import Blocks

DOMAIN = "com.microsoft"
TRANSPOSED = ".transpose"  # how `clean` names the weight of a plain product
FLOAT_ACTIVATIONS, INT8_ACTIVATIONS = 1, 4  # accuracy_level of MatMulNBits


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
        made, parts = _replaced(node, found[0], name, blocks[name], accuracy_level)
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
    node: onnx.NodeProto, value: str, name: str, blocks: Blocks, accuracy_level: int
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    packed = blocks.packed()
    if node.op_type == "Gather" and node.input[0] == value:
        return _gather(node, name, blocks, packed)
    if node.op_type == "MatMul" and node.input[1] == value and value.endswith(TRANSPOSED):
        return _product(node, name, blocks, packed, accuracy_level)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if (
        node.op_type == "Gemm"
        and node.input[1] == value
        and attributes.get("transB") == 1
        and not attributes.get("transA", 0)
        and attributes.get("alpha", 1.0) == 1.0
    ):
        made, parts = _product(node, name, blocks, packed, accuracy_level)
        if len(node.input) > 2 and node.input[2] and attributes.get("beta", 1.0) != 0.0:
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


def _gather(
    node: onnx.NodeProto, name: str, blocks: Blocks, packed: dict[str, np.ndarray]
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
    parts = {key: array.reshape(rows, -1) for key, array in packed.items()}
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
    node: onnx.NodeProto,
    name: str,
    blocks: Blocks,
    packed: dict[str, np.ndarray],
    accuracy_level: int,
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    outputs, inputs = blocks.shape
    made = onnx.helper.make_node(
        "MatMulNBits",
        [node.input[0], *(f"{name}.{key}" for key in packed)],
        list(node.output),
        name=node.name,
        domain=DOMAIN,
        K=inputs,
        N=outputs,
        bits=blocks.format.bits,
        block_size=blocks.format.block,
        accuracy_level=accuracy_level,
    )
    parts = _stored(name, packed, "")
    if blocks.offsets is None:
        return [made], parts
    added, offsets = _offsets(node, name, blocks)
    made.output[0] = node.output[0] + ".steps"
    return [made, *added], parts | offsets


def _offsets(
    node: onnx.NodeProto, name: str, blocks: Blocks
) -> tuple[list[onnx.NodeProto], dict[str, Weight]]:
    """What a number that is added to all weights of a block adds: itself times the block's sum."""
    count, block = blocks.scales.shape[1], blocks.format.block
    if blocks.inputs != count * block:
        raise EdgeformerError(f"{name} has {blocks.inputs} inputs, no whole blocks of {block}")
    out = node.output[0]
    weights = {
        f"{name}.blocks": np.array([-1, count, block], np.int64),
        f"{name}.axis": np.array([2], np.int64),
        f"{name}.offsets": blocks.offsets.t().contiguous().numpy(),  # [blocks, outputs]
    }
    split, axis, offsets = weights
    made = [
        ("Reshape", [node.input[0], split], out + ".split"),  # [T, blocks, block]
        ("ReduceSum", [out + ".split", axis], out + ".sums"),  # [T, blocks]
        ("MatMul", [out + ".sums", offsets], out + ".offsets"),
        ("Add", [out + ".steps", out + ".offsets"], out),
    ]
    nodes = []
    for operator, inputs, output in made:
        keep = {"keepdims": 0} if operator == "ReduceSum" else {}
        label = f"{node.name}.{operator}"
        nodes.append(onnx.helper.make_node(operator, inputs, [output], name=label, **keep))
    return nodes, {key: Weight(key, lambda array=array: array) for key, array in weights.items()}


def _stored(name: str, parts: dict[str, np.ndarray], suffix: str) -> dict[str, Weight]:
    return {
        f"{name}.{key}{suffix}": Weight(f"{name}.{key}{suffix}", lambda array=array: array)
        for key, array in parts.items()
    }
