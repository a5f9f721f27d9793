"""Rules about a file as a whole: names that lead nowhere, sizes that do not fit, weights outside.

No parser gets as far as the operators of such a file. ONNX's own checker would find most of it,
but stops at the first and reads the external data.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import onnx
from onnx import TensorProto, helper

from edgeformer.export.lint.finding import ERROR, Finding
from edgeformer.export.lint.origin import origin

AGAIN = "export it again: something has edited the file since"
RESHAPE = "the sizes of its inputs must fit: look at the constant among them, or export it again"
OUTSIDE = "keep weights beside the file: onnx.save(model, FILE, save_as_external_data=True)"
# One node's part of what strict inference raises.
_PART = re.compile(r"\(op_type:(\w+), node name: (.*?)\): \[\w+\] (.*)")
_FOLLOWS = "expected to have type but instead is null"  # the node before it is the fault


def check_whole(model: onnx.ModelProto) -> Iterator[Finding]:
    """All of them; sizes only where every name leads somewhere."""
    names = [*_names(model.graph)]
    yield from names
    yield from _external(model)
    if not names:
        yield from _sizes(model)


def _names(graph: onnx.GraphProto) -> Iterator[Finding]:
    """Through nested graphs, which see the names of those around them."""
    waiting: list[tuple[onnx.GraphProto, frozenset[str]]] = [(graph, frozenset())]
    while waiting:
        body, outer = waiting.pop()
        given = [value.name for value in (*body.input, *body.initializer)]
        given += [tensor.values.name for tensor in body.sparse_initializer]
        made = Counter(name for node in body.node for name in node.output if name)
        known = outer | set(given) | set(made)
        for name in (name for name, count in made.items() if count > 1 or name in given):
            yield _finding("names", None, f"{name} is made more than once", AGAIN)
        for node in body.node:
            lost = [name for name in node.input if name and name not in known]
            if lost:
                yield _finding("names", node, f"nothing makes its input {lost[0]}", AGAIN)
            for attribute in node.attribute:
                waiting += [(g, known) for g in (attribute.g, *attribute.graphs) if g.node]
        for value in body.output:
            if value.name not in known:
                yield _finding("names", None, f"nothing makes the output {value.name}", AGAIN)
        yield from _cycle(body, outer | set(given))


def _cycle(body: onnx.GraphProto, known: frozenset[str]) -> Iterator[Finding]:
    """Nodes may stand in any order (TensorRT sorts them), but some order must exist."""
    made = {name for node in body.node for name in node.output if name}
    needs = [set(_reads(node)) & made - known for node in body.node]
    readers: dict[str, list[int]] = {}
    for i, names in enumerate(needs):
        for name in names:
            readers.setdefault(name, []).append(i)
    ready = [i for i, names in enumerate(needs) if not names]
    for i in ready:  # it grows
        for name in body.node[i].output:
            for reader in readers.pop(name, ()):
                needs[reader].discard(name)
                if not needs[reader]:
                    ready.append(reader)
    if len(ready) < len(body.node):
        stuck = next(node for node, names in zip(body.node, needs, strict=True) if names)
        yield _finding("names", stuck, "it needs its own output: the graph has a cycle", AGAIN)


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names of the graph around it that a node needs, those inside its bodies too."""
    waiting: list[Any] = [node]
    while waiting:
        inner = waiting.pop()
        yield from inner.input
        for attribute in inner.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from (value.name for value in graph.output)
                waiting.extend(graph.node)


def _sizes(model: onnx.ModelProto) -> Iterator[Finding]:
    """What ONNX's inference cannot make fit. Sizes that the file states count for inputs alone:
    TensorRT reads no others."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    for value in bare.graph.output:
        value.ClearField("type")
    try:
        onnx.shape_inference.infer_shapes(bare, strict_mode=True)
        return
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as error:
        parts = _PART.findall(str(error))
    nodes = {(node.op_type, node.name): node for node in model.graph.node}
    for operator, name, text in parts:
        if _FOLLOWS not in text:
            node = nodes.get((operator, name)) or onnx.NodeProto(op_type=operator, name=name)
            yield _finding("sizes", node, text.strip(), RESHAPE)


def _external(model: onnx.ModelProto) -> Iterator[Finding]:
    """Where weights lie, as far as the file itself tells: the data is not read."""
    for tensor in model.graph.initializer:
        entry = {pair.key: pair.value for pair in tensor.external_data}
        location, length = entry.get("location"), entry.get("length")
        if location is None:
            continue
        path = PurePosixPath(location.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            fact = f"the weights of {tensor.name} lie outside its folder: {location}"
            yield _finding("external-data", None, fact, OUTSIDE)
        wanted = _bytes_of(tensor)
        if length is not None and wanted is not None and length != str(wanted):
            fact = f"{tensor.name} takes {wanted} bytes, its entry has length {length}"
            yield _finding("external-data", None, fact, OUTSIDE)


def _bytes_of(tensor: TensorProto) -> int | None:
    """None where two values share a byte or a type is not known."""
    if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1):
        return None
    try:
        size = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:
        return None
    return math.prod(tensor.dims) * size


def _finding(rule: str, node: onnx.NodeProto | None, fact: str, rewrite: str) -> Finding:
    if node is None:
        return Finding(rule, ERROR, "", "", "", fact, rewrite)
    return Finding(rule, ERROR, node.op_type, node.name, origin(node), fact, rewrite)
