"""Where in the model a node of a profile stands: its layer, its part, and its node of our graph.

Our nodes carry the path of their module, and ONNX Runtime keeps it in most of what it fuses. The
norms that its older releases fuse have lost it; they stand in the order of the model's norms. What
is told by neither is "not told": nothing is left out, and nothing is guessed.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Set, Tuple

from edgeformer.contract import FP32_PREFIX
from edgeformer.engines.graphfile import GraphFile, Node

POSITIONS, NOT_TOLD = "positions and masks", "not told"
EMBEDDING, HEAD = "embedding", "head"
PRODUCTS, ATTENTION = "attention products", "attention"
NORMS, FEED_FORWARD, SUMS = "norms", "feed-forward", "residual sums"
PARTS = (PRODUCTS, ATTENTION, NORMS, FEED_FORWARD, SUMS)
NORM = "LayerNormalization"  # how the names of the operators end
_BLOCK = re.compile(r"blocks\.([0-9]+)")
_INSERTED = re.compile(r"^Inserted[A-Za-z]*Cast_/?")  # before a value's name, in FP16 graphs
_EDGE = re.compile(r"[^A-Za-z0-9]")
_INPUTS = ("positions", "past_positions")


class Place(NamedTuple):
    """`layer`: embedding, layer 0 ..., head, or one of two that are in no layer. `part`: of a
    layer. `node`: the name of the node in our graph that it was made of, or ""."""

    layer: str
    part: str
    module: str
    node: str


class Places:
    """The nodes of a graph, and those of a profile of it."""

    def __init__(self, graph: GraphFile) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._order = {node.name: index for index, node in enumerate(graph.nodes)}
        self._positions = _from_positions(graph)
        norms = [n for n in graph.nodes if n.operator == "Sqrt" or n.operator.endswith(NORM)]
        self._norms = [module_of(node.name) for node in norms]
        blocks = [i for i, node in enumerate(graph.nodes) if _BLOCK.search(node.name)]
        self._last = max(blocks, default=-1)

    def of_run(self, names: Sequence[Tuple[str, str]]) -> List[Place]:
        """Of each (name, operator) of a run, in its order."""
        found = [self._place(name) for name, _ in names]
        lost = [
            index
            for index, (_, operator) in enumerate(names)
            if found[index].layer == NOT_TOLD and operator.endswith(NORM)
        ]
        known = {place.module for place in found}
        norms = [module for module in self._norms if module not in known]
        if len(lost) == len(norms):  # along the residual stream their order is fixed
            for index, module in zip(lost, norms):
                found[index] = self._in_module(module, "", HEAD)
        return found

    def _place(self, name: str) -> Place:
        value = _INSERTED.sub("", name)
        node = self._node(value)
        if node is None:
            return Place(NOT_TOLD, "", "", "")
        known = node.name if value == name else ""  # a cast of its result reads no weights
        if node.name in self._positions:
            return Place(POSITIONS, "", module_of(node.name), known)
        behind = self._order[node.name] > self._last
        return self._in_module(module_of(node.name), known, HEAD if behind else EMBEDDING)

    def _node(self, name: str) -> Optional[Node]:
        """Ours with this name, or with the longest beginning of it that ends at a word's end."""
        ends = [match.start() for match in _EDGE.finditer(name)]
        for end in [len(name)] + ends[::-1]:
            for prefix in ("", FP32_PREFIX):
                node = self._nodes.get(prefix + name[:end])
                if node is not None:
                    return node
        return None

    def _in_module(self, module: str, node: str, elsewhere: str) -> Place:
        block = _BLOCK.match(module)
        if block is None:
            return Place(elsewhere, NORMS if "norm" in module else "", module, node)
        path = module[block.end() :].strip("/").split("/")
        if path[-1].endswith("norm"):
            part = NORMS
        elif path[-1] in ("qkv", "out"):
            part = PRODUCTS
        else:
            part = {"attention": ATTENTION, "ff": FEED_FORWARD}.get(path[0], SUMS)
        return Place(f"layer {block.group(1)}", part, module, node)


def module_of(name: str) -> str:
    """`fp32/blocks.0/ff/up/MatMul` -> `blocks.0/ff/up`."""
    path = name[len(FP32_PREFIX) :] if name.startswith(FP32_PREFIX) else name
    return path.strip("/").rpartition("/")[0]


def _from_positions(graph: GraphFile) -> Set[str]:
    """Names of the nodes that depend on positions and on what is stored alone, but for a table of
    learned positions."""
    values: Set[str] = set(_INPUTS) | set(graph.initializers) | {""}
    found: Set[str] = set()
    for node in graph.nodes:
        if values.issuperset(node.inputs):
            values.update(node.outputs)
            if "embedding" not in module_of(node.name):
                found.add(node.name)
    return found
