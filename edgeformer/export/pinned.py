"""Which nodes must compute in FP32, whatever the precision of an engine: their names say so.

A pinned node's name begins with `fp32/`; the rest of a name is the path of the module that made
the node. TensorRT 8.2 with its FP16 flag sets the precision of a layer by this prefix, and a
half-precision graph keeps these nodes in FP32 (or INT32). Pinned are:
- what is computed from positions alone: masks, ALiBi distances, rotation tables;
- attention scores from their product up to and with the softmax (soft cap, mask);
- the statistics of each norm, up to the division by the root;
- what follows the product with the vocabulary: logit multiplier, soft cap;
- what the audit of the model pinned (`audit.py`, `nn/pins.py`): modules, or the residual stream.
A Cast to FP16, which leads out of them, is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx

from edgeformer.contract import FP32_PREFIX
from edgeformer.export.clean import Weight
from edgeformer.export.lint.origin import module_path
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.layers import Block, Norm
from edgeformer.nn.pins import STREAM, float32_modules

PREFIX = FP32_PREFIX
POSITION_INPUTS = {"positions", "past_positions"}
PRODUCTS = ("MatMul", "Gemm")


def name_nodes(
    nodes: list[onnx.NodeProto],
    weights: dict[str, Weight],
    decoder: Decoder,
    pins: Collection[str] = (),
) -> None:
    """Give each node its final name: module path, operator, and the prefix where it is pinned.

    May be done again, with more pins.
    """
    for node in nodes:
        node.name = node.name.removeprefix(PREFIX).lstrip("/")
    pinned = [
        *_from_positions(nodes, {value for value, weight in weights.items() if not weight.name}),
        *_behind(nodes, [node for node in nodes if node.op_type == "Softmax"]),
        *_behind(nodes, [node for node in nodes if "logits" in node.output]),
        *_statistics(nodes, decoder),
        *_of_modules(nodes, decoder, pins),
    ]
    names = {node.name for node in pinned if not _casts_to(node, onnx.TensorProto.FLOAT16)}
    for node in nodes:
        node.name = (PREFIX if node.name in names else "") + node.name


def module_of(node_name: str, decoder: Decoder) -> str:
    """The PyTorch module that made a node, for messages: `blocks.0.attention (Attention)`."""
    modules = dict(decoder.named_modules())
    path = module_path(node_name)
    while path and path not in modules:
        path = path.rpartition(".")[0]
    kind = type(modules[path]).__name__
    return f"{path} ({kind})" if path else kind


def _casts_to(node: onnx.NodeProto, element: int) -> bool:
    return node.op_type == "Cast" and any(a.name == "to" and a.i == element for a in node.attribute)


def _from_positions(nodes: list[onnx.NodeProto], constants: set[str]) -> Iterator[onnx.NodeProto]:
    """Nodes that depend on positions and constants alone; a learned table is no constant."""
    values = POSITION_INPUTS | constants
    for node in nodes:
        if node.op_type != "Shape" and values.issuperset(filter(None, node.input)):
            values.update(node.output)
            yield node


def _behind(nodes: list[onnx.NodeProto], ends: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The ends and what leads to them, back to the nearest products."""
    made_by = {name: node for node in nodes for name in node.output}
    open_, done = list(ends), set()
    while open_:
        node = open_.pop()
        if node.op_type in PRODUCTS or node.name in done:
            continue
        done.add(node.name)
        yield node
        open_ += [made_by[name] for name in node.input if name in made_by]


def _statistics(nodes: list[onnx.NodeProto], decoder: Decoder) -> Iterator[onnx.NodeProto]:
    """In a norm, all up to the division; behind it too where it scales by 1 + weight in FP32."""
    modules = dict(decoder.named_modules())
    # a norm of what another one has normed shares its statistics, and begins behind the division
    begun = {module_path(node.name) for node in nodes if node.op_type == "Div"}
    divided: set[str] = set()
    for node in nodes:
        path = module_path(node.name)
        norm = modules.get(path)
        if isinstance(norm, Norm) and (path in begun - divided or norm.plus_one):
            yield node
            if node.op_type == "Div":
                divided.add(path)


def _of_modules(
    nodes: list[onnx.NodeProto], decoder: Decoder, pins: Collection[str]
) -> Iterator[onnx.NodeProto]:
    """What pinned modules compute, the sums of a pinned stream, and casts that lead into them."""
    modules, wide = dict(decoder.named_modules()), float32_modules(decoder, pins)
    head = "embedding" if decoder.config.tie_embeddings else "head"
    for node in nodes:
        path = module_path(node.name)
        if path:
            stream = isinstance(modules.get(path), Block)
        else:  # between modules: the embedding's sums, chosen rows; and the vocabulary's product
            stream = node.op_type not in ("Gemm", "Cast")
        if (
            path in wide
            or (stream and STREAM in pins)
            or (node.op_type == "Gemm" and not path and head in wide)
            or _casts_to(node, onnx.TensorProto.FLOAT)
        ):
            yield node
