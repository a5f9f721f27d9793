"""Bytes that each node of a profile reads of the weights and of the cache."""

from typing import Dict, List, Sequence, Tuple

from edgeformer.bench.profile.places import Place, module_of
from edgeformer.engines.graphfile import GraphFile
from edgeformer.engines.shapes import Value
from edgeformer.speed.costs import ATTENTION, Steps
from edgeformer.speed.nodes import VIEWS

Bytes = Dict[str, int]  # by the name of a node of our graph
_PASSED = VIEWS + ("Transpose",)


def reads(steps: Steps, tokens: int, past: int) -> Tuple[Bytes, Bytes]:
    """Of weights and of the cache, in one step."""
    graph, values = steps.described(tokens, past)
    weights: Bytes = {}
    for node, _, size, _ in steps.stored(graph, values):
        weights[node.name] = weights.get(node.name, 0) + size
    return weights, _cached(graph, values, past + tokens)


def _cached(graph: GraphFile, values: Dict[str, Value], rows: int) -> Bytes:
    """Portable graphs read their past rows in two products; GroupQueryAttention the rows in use,
    of buffers that are as large as the capacity."""
    held = {name: value.bytes for name, value in values.items() if name.startswith("past.")}
    found: Bytes = {}
    for node in graph.nodes:
        if node.operator == ATTENTION:
            caches = node.inputs[3:5]
            size = sum(held.get(name, 0) * rows // values[name].shape[2] for name in caches)
        else:
            size = sum(held.get(name, 0) for name in node.inputs)
            if size and node.operator in _PASSED:
                held.update(dict.fromkeys(node.outputs, size))
                continue
        if size:
            found[node.name] = size
    return found


def given_to(places: Sequence[Place], us: Sequence[float], sizes: Bytes) -> List[int]:
    """The bytes of our nodes, by node of a profile. What the runtime has fused away goes to what it
    was fused into: the same operation before our export rewrote it, else the longest node of its
    module."""
    found = [0] * len(places)
    by_node: Dict[str, int] = {}
    by_origin: Dict[str, int] = {}
    by_module: Dict[str, int] = {}
    for index in sorted(range(len(places)), key=lambda i: us[i]):  # the longest stays
        place = places[index]
        if place.node:
            by_node[place.node] = by_origin[_origin(place.node)] = index
        if place.module:
            by_module[place.module] = index
    for name, size in sizes.items():
        for index in (
            by_node.get(name),
            by_origin.get(_origin(name)),
            by_module.get(module_of(name)),
        ):
            if index is not None:
                found[index] += size
                break
    return found


def _origin(name: str) -> str:
    """`Gemm` of `Gemm.Mul.212`, which the export has made of it."""
    path, slash, operation = name.rpartition("/")
    return path + slash + operation.partition(".")[0]
