"""ONNX Runtime on the CPU: one session of prefill.onnx, and a cache that it reads in place."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

from edgeformer.backends import Backend, Held, Output, Rows
from edgeformer.backends.embedding import open_table
from edgeformer.backends.rows import RowCache
from edgeformer.backends.steps import StepLimits, most_likely
from edgeformer.backends.threads import default_threads, spinning
from edgeformer.bundle import Bundle
from edgeformer.contract import DTYPES as CACHE_DTYPES
from edgeformer.contract import TensorSpec, cache_names, difference
from edgeformer.errors import BundleError, EdgeformerError
from edgeformer.release import release_mapped

DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}
ORT_ERRORS = tuple(
    kind
    for kind in vars(ort_state).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)
onnxruntime.disable_telemetry_events()  # nobody is told of what runs here
LOG_FATAL = 4  # an error reaches the user as an exception, not also as a line on stderr


class OrtBackend(Backend):
    """Runs `prefill.onnx` at any T: a second session for decode.onnx would hold the weights twice.

    Inputs and outputs are bound by address. What is bound changes only with the number of tokens
    or when the cache grows into its next bucket; a step in between costs no Python by layer.

    onnxruntime has hardly any FP16 on a CPU: it computes those graphs in FP32 between casts of its
    own, and the cache alone is FP16.
    """

    name = "ort"
    abilities = frozenset(("drop", "rows"))

    def __init__(
        self, bundle: Bundle, threads: Optional[int] = None, profile: Optional[str] = None
    ) -> None:
        manifest = bundle.manifest
        self.threads = default_threads() if threads is None else threads
        self.precision = manifest.precision
        self._session = open_graph(bundle, "prefill", self.threads, profile)
        self._binding = self._session.io_binding()
        self._bound = (0, 0, 0)  # tokens, rows with outputs, past rows

        sizes = manifest.model
        width = sizes["n_kv_heads"] * sizes["head_dim"]
        self._names = cache_names(sizes["n_layers"])
        self._vocabulary = sizes["vocab_size"]
        dtype = CACHE_DTYPES[manifest.precision]
        self._cache = RowCache(len(self._names), manifest.capacity, width, dtype)
        self._held: List[Held] = []
        self._limits = StepLimits.of(manifest)
        chunk = self._limits.chunk
        self._new = np.zeros((len(self._names), chunk, width), dtype)
        self._logits = np.zeros((1, self._vocabulary), np.float32)  # grows to the most rows
        self._table = open_table(bundle)  # None: the graph takes token ids
        first = (chunk,) if self._table is None else (chunk, self._table.shape[1])
        self._first = np.zeros(first, np.int32 if self._table is None else self._table.dtype)
        self._positions = np.zeros(chunk, np.int32)
        self._rows = np.zeros(chunk, np.int32)

    @property
    def cached(self) -> int:
        return self._cache.used

    def step(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        rows: Sequence[int],
        want: str = "logits",
    ) -> Output:
        count, outputs = len(token_ids), len(rows)
        kept = self._check_step(token_ids, positions, rows, want)
        self._first[:count] = token_ids if self._table is None else self._table[list(token_ids)]
        self._positions[:count] = positions
        self._rows[:outputs] = rows
        past = self._cache.past()
        if self._bound != (count, outputs, past):
            self._bind(count, outputs, past)
        try:
            self._session.run_with_iobinding(self._binding)
        except ORT_ERRORS as error:
            raise EdgeformerError(f"onnxruntime failed in a step: {error}") from None
        if want == "token":
            output = Output(None, most_likely(self._logits[:outputs]))
        else:
            output = Output(self._logits[:outputs].copy(), None)
        self._hold(self._cache.used, token_ids, positions)
        self._cache.append(self._new[:, :count], self._positions[:count], kept)
        return output

    def truncate(self, rows: int) -> None:
        self._check_open()
        self._cache.check_range(0, rows)
        del self._held[rows:]
        self._cache.truncate(rows)

    def drop(self, start: int, stop: int) -> None:
        self._check_open()
        del self._held[start:]
        self._cache.drop(start, stop)

    def read_rows(self, start: int, stop: int) -> Rows:
        self._check_open()
        return self._cache.read(start, stop)

    def write_rows(self, rows: Rows, token_ids: Sequence[int] = ()) -> None:
        self._check_open()
        self._hold(self._cache.used, token_ids, rows.positions.tolist(), computed=False)
        self._cache.write(rows)

    def end_profile(self) -> str:
        return str(self._session.end_profiling())

    def close(self) -> None:
        self._session = self._binding = self._table = None
        self._cache = RowCache(0, 1, 0)
        self._new = self._logits = np.zeros((0, 0, 0), np.float32)

    def _check_step(
        self, token_ids: Sequence[int], positions: Sequence[int], rows: Sequence[int], want: str
    ) -> int:
        """Refuse what the graph would answer with garbage; the number of rows to keep."""
        self._check_open()
        kept = self._limits.check(token_ids, positions, rows, want)
        self._cache.check_room(kept)
        return kept

    def _check_open(self) -> None:
        if self._session is None:
            raise EdgeformerError("the model is closed; load the bundle again")

    def _bind(self, count: int, outputs: int, past: int) -> None:
        """Give onnxruntime the addresses for this many tokens, outputs and past rows."""
        if outputs > len(self._logits):
            self._logits = np.zeros((outputs, self._vocabulary), np.float32)
        self._bound = (0, 0, 0)  # in case of an interrupt half-way
        cache = self._cache
        width = cache.values.shape[2]
        first = "token_ids" if self._table is None else "embeddings"
        self._bind_input(first, self._first, (count,) + self._first.shape[1:])
        self._bind_input("positions", self._positions, (count,))
        self._bind_input("past_positions", cache.positions, (past,))
        self._bind_input("rows", self._rows, (outputs,))
        self._bind_output("logits", self._logits, (outputs, self._vocabulary))
        for index, name in enumerate(self._names):
            self._bind_input("past." + name, cache.values[index], (past, width))
            self._bind_output("new." + name, self._new[index], (count, width))
        self._bound = (count, outputs, past)

    def _bind_input(self, name: str, array: np.ndarray, shape: Tuple[int, ...]) -> None:
        self._binding.bind_input(name, "cpu", 0, array.dtype.type, shape, address(array))

    def _bind_output(self, name: str, array: np.ndarray, shape: Tuple[int, ...]) -> None:
        self._binding.bind_output(name, "cpu", 0, array.dtype.type, shape, address(array))


def open_graph(bundle: Bundle, kind: str, threads: int, profile: Optional[str] = None) -> Any:
    """A session of one graph, whose tensors are those that the manifest lists.

    profile: how the path begins of a file that takes the time of every node of every run.
    """
    check_release(bundle.manifest.min_onnxruntime)
    graph = bundle.manifest.graphs[kind]
    session = _session(bundle.file(graph.file), graph.file, threads, profile)
    _refuse_other_tensors("inputs", session.get_inputs(), graph.inputs)
    _refuse_other_tensors("outputs", session.get_outputs(), graph.outputs)
    release_mapped(bundle.file(name) for name in bundle.manifest.files)
    return session


def _refuse_other_tensors(what: str, found: Any, listed: Tuple[TensorSpec, ...]) -> None:
    specs = []
    for tensor in found:
        dims = tuple(dim if isinstance(dim, int) else str(dim) for dim in tensor.shape)
        specs.append(TensorSpec(tensor.name, DTYPES.get(tensor.type, tensor.type), dims))
    wrong = difference(tuple(specs), listed)
    if wrong:
        raise BundleError(
            f"the {what} of the graph are not those of the manifest: {wrong}; "
            "copy or export the bundle again"
        )


class BoundGraph:
    """Any graph, with its inputs and outputs bound once: what a probe of this machine runs."""

    def __init__(
        self,
        model: bytes,
        threads: int,
        inputs: Dict[str, np.ndarray],
        outputs: Dict[str, np.ndarray],
    ) -> None:
        session = _session(model, "a probe", threads)
        self._held = (session, inputs, outputs)  # their addresses are bound
        self._run = session.run_with_iobinding
        self._binding = session.io_binding()
        for bind, arrays in (
            (self._binding.bind_input, inputs),
            (self._binding.bind_output, outputs),
        ):
            for name, array in arrays.items():
                bind(name, "cpu", 0, array.dtype.type, array.shape, address(array))

    def run(self) -> None:
        self._run(self._binding)


def check_release(oldest: str) -> None:
    """Refuse an onnxruntime that is older than a bundle needs."""
    found = onnxruntime.__version__
    if _numbers(found) < _numbers(oldest):
        raise EdgeformerError(
            f"this bundle needs onnxruntime {oldest} or newer, {found} is installed; "
            f"run: python -m pip install 'onnxruntime>={oldest}' (there is none for Python 3.6: "
            "export with --dialect portable in fp32, or with --precision int8-dynamic)"
        )


def _numbers(release: str) -> List[int]:
    return [int(part) if part.isdigit() else 0 for part in release.split(".")[:2]]


def _session(
    path: Union[str, bytes], name: str, threads: int, profile: Optional[str] = None
) -> Any:
    options = onnxruntime.SessionOptions()
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = LOG_FATAL
    for key, value in spinning(onnxruntime.__version__).items():
        options.add_session_config_entry(key, value)
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except ORT_ERRORS + (ValueError, RuntimeError) as error:
        raise BundleError(
            f"onnxruntime {onnxruntime.__version__} cannot load {name}: {error}; "
            "copy or export the bundle again"
        ) from None


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
