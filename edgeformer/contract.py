"""The tensors of a bundle's graphs: what it must declare and a backend binds."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

from edgeformer import strictjson as js
from edgeformer.errors import BundleError

Dim = Union[int, str]  # a str stands for a size that is free in the graph
# Of activations and cache, by the precision of a bundle; quantized weights are their own types.
DTYPES = {
    "fp32": "float32",
    "fp16": "float16",
    "int8-qdq": "float32",
    "int8-dynamic": "float32",
    "n8": "float32",
    "n4": "float32",
}
CPU_ONLY = ("int8-dynamic", "n8", "n4")  # precisions with operators that no TensorRT has
PORTABLE = ("prefill", "decode")  # the graphs of a bundle, by their kinds; or, fused, one:
STEP = "step"
FP32_PREFIX = "fp32/"  # begins the name of each node that is FP32 (or INT32) in every engine


class TensorSpec(NamedTuple):
    """One input or output of a graph."""

    name: str
    dtype: str
    shape: Tuple[Dim, ...]


class Graph(NamedTuple):
    """One ONNX file of a bundle and the tensors that it declares."""

    file: str
    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]


def cache_names(n_layers: int) -> List[str]:
    """One name for each cached tensor, in the order of the cache: `0.key`, `0.value`, `1.key`."""
    return [f"{layer}.{kind}" for layer in range(n_layers) for kind in ("key", "value")]


def portable_graph(
    kind: str, file: str, model: Dict[str, Any], precision: str = "fp32", host: bool = False
) -> Graph:
    """What the `prefill` or `decode` graph of a model looks like from outside.

    `decode` takes exactly one token and gives its logits: T = R = 1 and no `rows`.
    `host`: the embedding's rows are an input, looked up outside.
    """
    dtype = DTYPES[precision]
    tokens: Dim = 1 if kind == "decode" else "T"
    rows: Dim = 1 if kind == "decode" else "R"
    width = model["n_kv_heads"] * model["head_dim"]
    ids = TensorSpec("token_ids", "int32", (tokens,))
    embedded = TensorSpec("embeddings", dtype, (tokens, model["d_model"]))
    inputs = [
        embedded if host else ids,
        TensorSpec("positions", "int32", (tokens,)),
        TensorSpec("past_positions", "int32", ("P",)),
    ]
    if kind == "prefill":
        inputs.append(TensorSpec("rows", "int32", (rows,)))
    outputs = [TensorSpec("logits", "float32", (rows, model["vocab_size"]))]
    for name in cache_names(model["n_layers"]):
        inputs.append(TensorSpec("past." + name, dtype, ("P", width)))
        outputs.append(TensorSpec("new." + name, dtype, (tokens, width)))
    return Graph(file, tuple(inputs), tuple(outputs))


def fused_head(head_dim: int) -> int:
    """Numbers of a head in the cache of dialect `ort`: of whole 8, the last ones zero."""
    return -(-head_dim // 8) * 8


def fused_graph(
    file: str, model: Dict[str, Any], capacity: int, counted: bool, spare: int = 0
) -> Graph:
    """What the graph of a model in ONNX Runtime's own operators looks like: any T, a cache of
    `capacity` rows in the order of their positions, written in place.

    `counted`: it takes the tokens' positions, since no operator knows what to do with them.
    `spare`: rows behind those, which a step may write and nobody reads.
    """
    ids = [TensorSpec("token_ids", "int32", (1, "T"))]
    inputs = ids + ([TensorSpec("positions", "int32", ("T",))] if counted else [])
    inputs += [
        TensorSpec("rows", "int32", ("R",)),
        TensorSpec("last", "int32", (1,)),  # index of the last row, once the step is done
        TensorSpec("total", "int32", (1,)),  # number of rows then
    ]
    outputs = [
        TensorSpec("logits", "float32", ("R", model["vocab_size"])),
        TensorSpec("tokens", "int64", ("R",)),
    ]
    rows = (1, model["n_kv_heads"], capacity + spare, fused_head(model["head_dim"]))
    for name in cache_names(model["n_layers"]):
        inputs.append(TensorSpec("past." + name, "float32", rows))
        outputs.append(TensorSpec("present." + name, "float32", rows))
    return Graph(file, tuple(inputs), tuple(outputs))


def parse_graphs(
    value: Any,
    where: str,
    model: Dict[str, Any],
    files: Sequence[str],
    precision: str,
    host: bool,
    capacity: int,
    spare: int = 0,
) -> Dict[str, Graph]:
    """Check the manifest's `graphs` against the files that it lists and the model's sizes."""
    graphs = {}
    kinds = (STEP,) if STEP in js.table(value, where) else PORTABLE
    for kind, entry in js.record(value, where, kinds).items():
        at = f"{where}.{kind}"
        entry = js.record(entry, at, Graph._fields)
        graph = Graph(
            js.text(entry["file"], at + ".file"),
            js.items(entry["inputs"], at + ".inputs", _tensor),
            js.items(entry["outputs"], at + ".outputs", _tensor),
        )
        if graph.file not in files:
            raise BundleError(f"{at}.file {js.shown(graph.file)} is not in files")
        if kind == STEP:
            counted = any(spec.name == "positions" for spec in graph.inputs)
            wanted = fused_graph(graph.file, model, capacity, counted, spare)
        else:
            wanted = portable_graph(kind, graph.file, model, precision, host)
        wrong = difference(graph.inputs, wanted.inputs) or difference(graph.outputs, wanted.outputs)
        if wrong:
            raise BundleError(f"{at} does not fit the model: {wrong}")
        graphs[kind] = graph
    return graphs


def _tensor(value: Any, where: str) -> TensorSpec:
    entry = js.record(value, where, TensorSpec._fields)
    return TensorSpec(
        js.text(entry["name"], where + ".name"),
        js.text(entry["dtype"], where + ".dtype"),
        js.items(entry["shape"], where + ".shape", _dim),
    )


def _dim(value: Any, where: str) -> Dim:
    return value if isinstance(value, str) else js.integer(value, where, 1, js.MOST_INT32)


def difference(found: Tuple[TensorSpec, ...], wanted: Tuple[TensorSpec, ...]) -> str:
    """The first way in which `found` is not `wanted`, or "". Names of free sizes do not matter."""
    by_name = {spec.name: spec for spec in found}
    for spec in wanted:
        other = by_name.pop(spec.name, None)
        if other is None:
            return f"{spec.name} is missing"
        if _plain(other) != _plain(spec):
            return f"{spec.name} is {_shown(other)}, it must be {_shown(spec)}"
    for name in by_name:
        return f"{name} is not expected"
    return "" if len(found) == len(wanted) else "a name stands twice"


def _plain(spec: TensorSpec) -> Tuple[str, Tuple[int, ...]]:
    return spec.dtype, tuple(-1 if isinstance(dim, str) else dim for dim in spec.shape)


def _shown(spec: TensorSpec) -> str:
    return f"{spec.dtype} [{', '.join(map(str, spec.shape))}]"
