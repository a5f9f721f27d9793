"""How many nodes of a graph run in a step, after what ONNX Runtime folds and fuses.

Only fusions that our graphs meet are known here; the tests hold the count against the graph that
ONNX Runtime itself makes of each.
"""

from typing import Dict, List, Optional, Set, Tuple

from edgeformer.engines.graphfile import GraphFile, Node

# They move or rename what they were given: a runtime that compiles needs no kernel for them.
VIEWS = ("Cast", "Identity", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Unsqueeze")


def running_nodes(graph: GraphFile) -> List[Node]:
    """The nodes that ONNX Runtime is left with; of a fused group the last one stands for all."""
    reader = _Links(graph)
    gone = {node.outputs for node in graph.nodes if _constant(node, graph)}
    for node in graph.nodes:
        for fused in (_norm, _sigmoid, _gelu, _integer_product):
            gone |= fused(node, reader)
        if node.operator == "MatMul":
            gone |= {
                source.outputs
                for source in map(reader.maker, node.inputs)
                if source is not None
                and source.operator == "Transpose"
                and len(reader.readers(source)) == 1
            }
    return [node for node in graph.nodes if node.outputs not in gone]


def compute_nodes(graph: GraphFile) -> List[Node]:
    """Those of `running_nodes` that must touch numbers: the fewest that any runtime launches."""
    return [node for node in running_nodes(graph) if node.operator not in VIEWS]


class _Links:
    """Who makes a value, and who reads it."""

    def __init__(self, graph: GraphFile) -> None:
        self._maker = {name: node for node in graph.nodes for name in node.outputs}
        self._readers: Dict[str, List[Node]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)

    def maker(self, name: str) -> Optional[Node]:
        return self._maker.get(name)

    def readers(self, node: Node) -> List[Node]:
        return [reader for name in node.outputs for reader in self._readers.get(name, [])]

    def only_reader(self, node: Optional[Node], operator: str) -> Optional[Node]:
        found = [] if node is None else self.readers(node)
        return found[0] if len(found) == 1 and found[0].operator == operator else None

    def source(self, node: Optional[Node], operator: str) -> Optional[Node]:
        """The first input of a node that such an operator makes."""
        for name in () if node is None else node.inputs:
            made = self.maker(name)
            if made is not None and made.operator == operator:
                return made
        return None


Gone = Set[Tuple[str, ...]]


def _constant(node: Node, graph: GraphFile) -> bool:
    return all(name in graph.initializers for name in node.inputs if name)


def _group(*nodes: Optional[Node]) -> Gone:
    """Nodes that a fusion swallows; none where one of them is missing."""
    return set() if None in nodes else {node.outputs for node in nodes if node is not None}


def _norm(node: Node, links: _Links) -> Gone:
    """Pow, ReduceMean, Add, Sqrt, Div, Mul: RMSNorm; with Sub, ReduceMean and Add LayerNorm."""
    if node.operator != "Sqrt":
        return set()
    shifted = links.source(node, "Add")
    mean = links.source(shifted, "ReduceMean")
    power = links.source(mean, "Pow")
    quotient = links.only_reader(node, "Div")
    scaled = links.only_reader(quotient, "Mul")
    gone = _group(power, mean, shifted, node, quotient)
    centred = links.source(power, "Sub")
    average = links.source(centred, "ReduceMean")
    biased = links.only_reader(scaled, "Add")
    if not gone or scaled is None:
        return set()
    if centred is not None and average is not None and biased is not None:
        return gone | _group(centred, average, scaled)
    return gone


def _sigmoid(node: Node, links: _Links) -> Gone:
    """x * Sigmoid(x)."""
    if node.operator != "Sigmoid":
        return set()
    product = links.only_reader(node, "Mul")
    return {node.outputs} if product is not None and node.inputs[0] in product.inputs else set()


def _gelu(node: Node, links: _Links) -> Gone:
    """x / sqrt(2), Erf, + 1, * x, * 0.5."""
    if node.operator != "Erf":
        return set()
    scaled = links.source(node, "Div") or links.source(node, "Mul")
    added = links.only_reader(node, "Add")
    product = links.only_reader(added, "Mul")
    return _group(scaled, node, added, product)


def _integer_product(node: Node, links: _Links) -> Gone:
    """DynamicQuantizeLinear, MatMulInteger, Cast, and the product of the scales."""
    if node.operator != "MatMulInteger":
        return set()
    rounded = links.source(node, "DynamicQuantizeLinear")
    cast = links.only_reader(node, "Cast")
    product = links.only_reader(cast, "Mul")
    scales = links.source(product, "Mul")
    return _group(rounded, node, cast, scales)
