"""What one step of a bundle reads, multiplies and runs, counted from its graphs."""

from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from edgeformer.backends.rows import BUCKET
from edgeformer.bundle import Bundle
from edgeformer.contract import DTYPES, FP32_PREFIX, STEP
from edgeformer.engines.graphfile import (
    FLOAT,
    FLOAT16,
    INT32,
    GraphFile,
    Initializer,
    Node,
    read_graph,
)
from edgeformer.engines.needs import engine_bytes
from edgeformer.engines.shapes import Value, count, infer
from edgeformer.speed.nodes import compute_nodes, running_nodes

PRODUCTS = ("MatMul", "Gemm", "MatMulInteger", "MatMulNBits")
LOOKUPS = ("Gather", "GatherBlockQuantized")
ATTENTION = "GroupQueryAttention"


class Step(NamedTuple):
    """One step of `tokens` tokens while `past` cached rows are read. Bytes and floating operations.

    `weight_bytes`: every matrix and vector once; of tables only the rows that are looked up.
    `cache_bytes`: the cached rows, and the new ones. Activations are not counted: they stay in
    caches. `flops` is twice the multiply-adds of all products, attention's too.
    """

    tokens: int
    past: int
    weight_bytes: int
    cache_bytes: int
    flops: int
    products: int  # matrices that are multiplied by
    nodes: int  # that run, after what ONNX Runtime folds and fuses
    least_nodes: int  # of those, the ones that compute: what a compiler may come down to

    @property
    def bytes(self) -> int:
        return self.weight_bytes + self.cache_bytes


class Matrix(NamedTuple):
    """A stored matrix that a product reads: inputs, outputs, and how it is stored.

    block: numbers that share a scale, of MatMulNBits; outputs of a panel, of a MatMul in panels.
    """

    inner: int
    outer: int
    operator: str
    bits: int
    block: int = 0

    @property
    def elements(self) -> int:
        return self.inner * self.outer


class Steps:
    """The graphs of an open bundle, read once, and any step of it.

    precision: of the graphs, where ONNX Runtime runs them, else of an engine built from them.
    """

    def __init__(self, bundle: Bundle, precision: str, onnxruntime: bool) -> None:
        self.manifest = bundle.manifest
        self.precision = precision
        self.onnxruntime = onnxruntime
        self._bundle = bundle
        self._many = STEP if STEP in bundle.manifest.graphs else "prefill"
        self._graphs: Dict[str, GraphFile] = {}

    def decode(self, past: int) -> Step:
        """One token. onnxruntime runs the graph that takes any number; portable graphs read rows in
        whole buckets."""
        return self._step(self._many if self.onnxruntime else "decode", 1, past)

    def prefill(self, tokens: int, past: int = 0) -> Step:
        """One chunk, with the logits of its last token."""
        return self._step(self._many, tokens, past)

    def matrices(self) -> List[Matrix]:
        """Those that a prefill step multiplies by, one for each product."""
        graph = self._graph(self._many)
        found = []
        for node in graph.nodes:
            stored = graph.initializers.get(node.inputs[1]) if len(node.inputs) > 1 else None
            if node.operator == "MatMulNBits":
                of = node.attributes
                sizes = of["bits"], of["block_size"]
                found.append(Matrix(of["K"], of["N"], node.operator, *sizes))
            elif node.operator in PRODUCTS and stored is not None and len(stored.shape) == 2:
                inner, outer = stored.shape
                if node.attributes.get("transB"):
                    inner, outer = outer, inner
                bits = 8 if node.operator == "MatMulInteger" else 32
                found.append(Matrix(inner, outer, node.operator, bits))
            elif node.operator == "MatMul" and stored is not None and len(stored.shape) == 3:
                panels, inner, width = stored.shape
                found.append(Matrix(inner, panels * width, node.operator, 32, width))
        return found

    def _graph(self, kind: str) -> GraphFile:
        if kind not in self._graphs:
            file = self.manifest.graphs[kind].file
            self._graphs[kind] = read_graph(self._bundle.file(file), file)
        return self._graphs[kind]

    def described(self, tokens: int, past: int) -> Tuple[GraphFile, Dict[str, Value]]:
        """The graph that takes any number of tokens, and the size of each of its values."""
        return self._graph(self._many), self._values(self._many, tokens, past)

    def stored(
        self, graph: GraphFile, values: Dict[str, Value]
    ) -> Iterator[Tuple[Node, Initializer, int, bool]]:
        """Each node with each stored tensor that it reads, the bytes that it reads of it, and
        whether these are rows that are looked up."""
        for node in graph.nodes:
            for index, name in enumerate(node.inputs):
                tensor = graph.initializers.get(name)
                if tensor is None:
                    continue
                size = self._bytes(tensor, node, index)
                single = node.operator == "GatherND" and index == 0  # numbers, each by itself
                lines = _rows_looked_up(node, index, values)
                if single:
                    size = values[node.outputs[0]].bytes
                elif lines is not None:
                    size = size * lines // max(1, tensor.shape[0] if tensor.shape else 1)
                yield node, tensor, size, single or lines is not None

    def _rows(self, kind: str, past: int) -> int:
        if not self.onnxruntime or kind == STEP:
            return past
        bucket = min(BUCKET, self.manifest.capacity)
        return max(1, -(-past // bucket)) * bucket  # as RowCache.past

    def _values(self, kind: str, tokens: int, past: int) -> Dict[str, Value]:
        graph, contract = self._graph(kind), self.manifest.graphs[kind]
        sizes = {"T": tokens, "P": max(1, self._rows(kind, past)), "R": 1}
        given = {
            spec.name: Value(
                tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape),
                {"int32": INT32, "float16": FLOAT16}.get(spec.dtype, FLOAT),
            )
            for spec in contract.inputs
        }
        return infer(graph, given, contract.file)

    def _step(self, kind: str, tokens: int, past: int) -> Step:
        graph, rows = self._graph(kind), self._rows(kind, past)
        values = self._values(kind, tokens, past)
        model = self.manifest.model
        width = 2 * model["n_layers"] * model["n_kv_heads"] * model["head_dim"]
        multiplied = sum(_multiply_adds(node, values) for node in graph.nodes)
        if kind == STEP:  # one node a layer attends, to the rows in use
            heads = model["n_layers"] * model["n_heads"] * model["head_dim"]
            multiplied += 2 * heads * tokens * (rows + tokens)
        return Step(
            tokens,
            rows,
            self._weights(graph, values) + self._host_rows(tokens),
            (rows + tokens) * width * self._cached_bytes(),
            2 * multiplied,
            sum(1 for node in graph.nodes if _stored_product(node, graph)),
            len(running_nodes(graph)),
            len(compute_nodes(graph)),
        )

    def _weights(self, graph: GraphFile, values: Dict[str, Value]) -> int:
        """Each stored tensor once, by its place; of those that are looked up in, the rows."""
        whole: Dict[Tuple[str, str], int] = {}
        looked_up = 0
        for _, tensor, size, rows in self.stored(graph, values):
            if rows:
                looked_up += size
            else:
                whole[tensor.place] = max(size, whole.get(tensor.place, 0))
        return sum(whole.values()) + looked_up

    def _bytes(self, tensor: Initializer, node: Node, index: int) -> int:
        if self.onnxruntime:
            # half precision is computed in FP32, from FP32 copies of the weights
            return tensor.count * 4 if tensor.element == FLOAT16 else tensor.bytes
        fp32 = self.manifest.precision == "fp16" or node.name.startswith(FP32_PREFIX)
        return engine_bytes(tensor, self.precision, fp32, node, index)

    def _host_rows(self, tokens: int) -> int:
        """Rows of a table that is looked up outside the graphs."""
        table = self.manifest.embedding
        rows = self.manifest.model["vocab_size"]
        return 0 if table is None else tokens * (table.bytes // rows)

    def _cached_bytes(self) -> int:
        if self.onnxruntime:
            return 2 if DTYPES[self.manifest.precision] == "float16" else 4
        return 4 if self.precision == "fp32" else 2


def _rows_looked_up(node: Node, index: int, values: Dict[str, Value]) -> Optional[int]:
    """How many rows of such an input a node reads; None: all of it."""
    if node.operator == ATTENTION:  # the tables of its rotation
        return values[node.inputs[0]].shape[1]
    if node.operator in LOOKUPS and (index == 0 or node.operator == LOOKUPS[1]):
        return count(values[node.inputs[1]].shape)
    return None


def _stored_product(node: Node, graph: GraphFile) -> bool:
    return node.operator in PRODUCTS and any(
        name in graph.initializers and len(graph.initializers[name].shape) >= 2
        for name in node.inputs
    )


def _multiply_adds(node: Node, values: Dict[str, Value]) -> int:
    if node.operator not in PRODUCTS:
        return 0
    shape = values[node.inputs[0]].shape
    inner = shape[-2] if node.operator == "Gemm" and node.attributes.get("transA") else shape[-1]
    return inner * count(values[node.outputs[0]].shape)


__all__ = ["Matrix", "Step", "Steps"]
