"""What a bundle needs in memory: for engines before they are built, or for onnxruntime."""

from typing import Any, Dict, List, NamedTuple, Set, Tuple

from edgeformer.bundle import Bundle
from edgeformer.contract import DTYPES, FP32_PREFIX, STEP, Graph
from edgeformer.engines import memory
from edgeformer.engines.graphfile import (
    FLOAT,
    FLOAT16,
    INT32,
    GraphFile,
    Initializer,
    Node,
    read_graph,
)
from edgeformer.engines.shapes import Value, infer

ALIGNMENT = 256  # bytes: every address that TensorRT is given
SCORED_ROWS = 8  # logits that verification and scoring ask for at once
LAYOUTS = ("split", "shared")


class Case(NamedTuple):
    """One way of running a bundle. `layout` is one of LAYOUTS, or "onnxruntime"."""

    layout: str
    precision: str  # of the engine, or of the graphs that onnxruntime runs
    capacity: int
    chunk: int
    embedding: str = "graph"  # or "host": the table stays in the mapped weights.bin


class Needs(NamedTuple):
    """Bytes. All of it is predicted; `weights` and `cache` are counted, the rest estimated."""

    weights: int
    plan: int  # what an engine holds beside its weights
    cache: int
    new_rows: int
    activations: int
    logits: int
    libraries: int
    loading: int  # more than running while the largest plan is read; then it is given back
    building: int  # of the engine that needs most, in a process of its own; 0: nothing is built

    @property
    def running(self) -> int:
        return sum(self[: Needs._fields.index("loading")])

    @property
    def largest(self) -> int:
        """What must be free to load and to run it."""
        return self.running + self.loading

    def as_json(self) -> Dict[str, int]:
        return dict(self._asdict(), running=self.running, largest=self.largest)


class Sizes:
    """The graphs of an open bundle, read once, and what any case of it needs."""

    def __init__(self, bundle: Bundle) -> None:
        self.manifest = bundle.manifest
        self._graphs = {
            kind: read_graph(bundle.file(graph.file), graph.file)
            for kind, graph in bundle.manifest.graphs.items()
        }
        self._many = STEP if STEP in self._graphs else "prefill"  # takes any number of tokens
        self._activations: Dict[Tuple[Any, ...], int] = {}

    @property
    def typed(self) -> bool:
        """Whether an engine has the graphs' own types; a builder may halve those of the others."""
        return self.manifest.precision == "fp16"

    @property
    def stored(self) -> int:
        """Bytes of all distinct tensors of both graphs, as the bundle holds them.

        A table outside the graphs is none: it is mapped, and the rows that are used can be read
        again.
        """
        return _distinct(t for graph in self._graphs.values() for t in graph.initializers.values())

    def table(self) -> int:
        """Bytes of the embedding table as it is stored; 0 where no graph looks token ids up."""
        graph = self._graphs[self._many]
        tables = _tables(graph)
        return _distinct(t for n, t in graph.initializers.items() if n in tables)

    def tied(self) -> bool:
        """Whether the head multiplies by the table that the ids are looked up in."""
        graph = self._graphs[self._many]
        places = {graph.initializers[name].place for name in _tables(graph)}
        read = [
            graph.initializers[name].place
            for node in graph.nodes
            if node.operator in ("Gemm", "MatMul")
            for name in node.inputs
            if name in graph.initializers
        ]
        return bool(places & set(read))

    def weights(self, kind: str, precision: str, embedding: str = "graph") -> int:
        """Bytes of one graph's weights inside an engine, where a table that is both looked up and
        multiplied is held twice."""
        graph = self._graphs[kind]
        left_out = _tables(graph) if embedding == "host" else set()
        uses: Dict[Tuple[str, bool], int] = {}  # bytes; of several nodes the first that is not FP32
        for node in graph.nodes:
            fp32 = self.typed or node.name.startswith(FP32_PREFIX)
            for i, name in enumerate(node.inputs):
                looked_up = node.operator == "Gather" and i == 0
                if name in graph.initializers and not (looked_up and name in left_out):
                    size = engine_bytes(graph.initializers[name], precision, fp32, node, i)
                    use = (name, looked_up)
                    uses[use] = min(size, uses.get(use, size))
        return sum(uses.values())

    def activations(self, kind: str, case: Case) -> int:
        """Estimate: the most bytes of results that are alive at once, one node after the other.

        TensorRT fuses, and reuses memory in ways of its own.
        """
        key = (kind, case.capacity, case.chunk, case.precision, case.layout == "onnxruntime")
        if key not in self._activations:
            sizes = {"T": case.chunk, "P": case.capacity, "R": min(SCORED_ROWS, case.chunk)}
            graph = self.manifest.graphs[kind]
            values = infer(self._graphs[kind], _inputs(graph, sizes), graph.file)
            widened = case.layout == "onnxruntime"
            halved = case.precision != "fp32" and not self.typed and not widened
            self._activations[key] = _largest_live(self._graphs[kind], values, halved, widened)
        return self._activations[key]

    def needs(self, case: Case) -> Needs:
        model = self.manifest.model
        onnxruntime = case.layout == "onnxruntime"
        number = self._stored_bytes() if onnxruntime else _bytes(case.precision)
        width = model["n_kv_heads"] * model["head_dim"] * number
        tensors = 2 * model["n_layers"]
        rows = min(SCORED_ROWS, case.chunk)
        cached = tensors * _aligned(case.capacity * width)
        # a fused graph writes them where they belong
        new = 0 if self._many == STEP else tensors * _aligned(case.chunk * width)
        if case.embedding == "host" or self.manifest.embedding is not None:
            new += _aligned(case.chunk * model["d_model"] * self._stored_bytes())
        logits = 2 * rows * model["vocab_size"] * 4  # on the device and on the host
        if onnxruntime:
            live = self.activations(self._many, case)
            process = int(memory.ORT_PROCESS.value) * memory.MIB
            # It computes half precision in FP32, from FP32 copies of the weights; 1.10 took 335 MB
            # for 84 MB of them, 1.32 half of that.
            held = self.stored * (4 if self.typed else 1)
            return Needs(held, 0, cached, new, live, logits, process, 0, 0)
        kinds = ("decode", "prefill") if case.layout == "split" else ("prefill",)
        engines = [self.weights(kind, case.precision, case.embedding) for kind in kinds]
        # contexts share one arena
        live = max(self.activations(kind, case) for kind in kinds)
        weights = sum(engines)
        factor = memory.PLAN.value
        return Needs(
            weights=weights,
            plan=int(weights * (factor - 1)),
            cache=cached,
            new_rows=new,
            activations=live,
            logits=logits,
            libraries=memory.overhead(),
            loading=int(max(engines) * factor),
            building=self._building(kinds, case),
        )

    def _stored_bytes(self) -> int:
        """Of a number of the graphs' cache and activations."""
        return 2 if DTYPES[self.manifest.precision] == "float16" else 4

    def _building(self, kinds: Tuple[str, ...], case: Case) -> int:
        """The parser holds what the bundle does, whatever the engine's precision."""
        fixed = int(memory.BUILDER_BASE.value + memory.WORKSPACE.value) * memory.MIB
        factor = memory.BUILDER_FACTOR.value
        return max(
            memory.overhead()
            + fixed
            + int(self.weights(kind, "fp32", case.embedding) * factor)
            + self.activations(kind, case)
            for kind in kinds
        )


def _distinct(tensors: Any) -> int:
    return sum({tensor.place: tensor.bytes for tensor in tensors}.values())


def _tables(graph: GraphFile) -> Set[str]:
    """Initializers that token ids are looked up in."""
    return {
        node.inputs[0]
        for node in graph.nodes
        if node.operator == "Gather" and node.inputs[1:] == ("token_ids",)
    } & set(graph.initializers)


def engine_bytes(tensor: Initializer, precision: str, fp32: bool, node: Node, index: int) -> int:
    """Bytes inside an engine of what a node reads as its input number `index`."""
    if node.operator in ("QuantizeLinear", "DequantizeLinear"):
        # weights are INT8, scales FP32; zero points are 0 and not kept
        return (1, 4, 0)[index] * tensor.count
    if tensor.element != FLOAT:
        return min(tensor.bytes, 4 * tensor.count)  # INT64 becomes INT32
    return tensor.count * (4 if fp32 else _bytes(precision))


def _bytes(precision: str) -> int:
    """Of a number that is neither pinned nor quantized; an INT8 engine has a FP16 cache."""
    return 4 if precision == "fp32" else 2


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _inputs(graph: Graph, sizes: Dict[str, int]) -> Dict[str, Value]:
    return {
        spec.name: Value(
            tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape),
            {"int32": INT32, "float16": FLOAT16}.get(spec.dtype, FLOAT),
        )
        for spec in graph.inputs
    }


def _largest_live(graph: GraphFile, values: Dict[str, Value], halved: bool, widened: bool) -> int:
    """`halved`: FP32 becomes FP16 where it may; `widened`: FP16 becomes FP32."""
    last = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    dying: List[List[str]] = [[] for _ in graph.nodes]
    sizes: Dict[str, int] = {}
    for i, node in enumerate(graph.nodes):
        half = halved and not node.name.startswith(FP32_PREFIX)
        for name in node.outputs:
            if name:
                whole = values[name].bytes
                element = values[name].element
                whole = 2 * whole if widened and element == FLOAT16 else whole
                sizes[name] = whole // 2 if half and element == FLOAT else whole
                dying[last.get(name, i)].append(name)
    live = most = 0
    for node, dead in zip(graph.nodes, dying):
        live += sum(sizes[name] for name in node.outputs if name)
        most = max(most, live)
        live -= sum(sizes[name] for name in dead)
    return most
