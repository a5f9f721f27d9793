"""Engines whose arithmetic is ONNX Runtime's, on memory that the code under test gave them."""

import ctypes
import hashlib
import itertools
import os

import numpy as np
import onnxruntime

from edgeformer.bundle import Bundle
from edgeformer.engines.record import EngineSet, engine_json, plan_path, read_engine_set
from tests.standin.libraries import EXECUTOR

TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(int32)": "int32"}
CODES = {"float32": 0, "float16": 1, "int32": 3}  # of TensorRT's DataType
ARENA = 65536

_numbers = itertools.count(1)
_sessions = {}
_halves = set()  # plans whose cache is float16


def plan_text(manifest, kind, record, number):
    """The plan of one graph: its tensors, and what its profile allows."""
    entry, past = record["engines"][kind], record["past_rows"]
    ranges = {"T": entry["tokens"], "R": entry["rows"], "P": (past[0], past[-1])}
    lines = ["STANDIN %d %d" % (number, ARENA)]
    graph = manifest.graphs[kind]
    for word, specs in (("input", graph.inputs), ("output", graph.outputs)):
        for spec in specs:
            cached = spec.name.startswith(("past.", "new."))
            dtype = record["cache_dtype"] if cached else spec.dtype
            line = [word, spec.name, str(CODES[dtype]), ",".join(map(str, spec.shape))]
            if word == "input":
                for end in (0, 1):
                    sizes = [ranges[d][end] if isinstance(d, str) else d for d in spec.shape]
                    line.append(",".join(map(str, sizes)))
            lines.append(" ".join(line))
    return "\n".join(lines) + "\n"


def computed_by(path, cache_dtype):
    """The number of a plan that this ONNX file computes."""
    number = next(_numbers)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    _sessions[number] = onnxruntime.InferenceSession(path, options, providers=providers)
    if cache_dtype == "float16":
        _halves.add(number)
    return number


def add_engines(
    path,
    layout="split",
    past_rows=None,
    tokens=None,
    rows=(1, 8),
    cache_dtype="float32",
    tensorrt=None,
    change=None,
    compute=True,
):
    """Build a set of engines for a bundle, as the builder will, and read it back.

    Without `compute` nothing can run but an executor that does nothing.
    `change(record, plans)` may spoil the record or the plans before they are written.
    """
    import tensorrt as bindings

    bundle = Bundle.open(path)
    manifest = bundle.manifest
    chunk = min(manifest.chunk, manifest.capacity)
    prefill = {"tokens": list(tokens or (1, chunk)), "rows": list(rows)}
    record = {
        "format": 1,
        "key": hashlib.sha256(repr((path, next(_numbers))).encode()).hexdigest()[:16],
        "layout": layout,
        "precision": "fp32" if cache_dtype == "float32" else "fp16",
        "cache_dtype": cache_dtype,
        "past_rows": past_rows or [manifest.capacity],
        "tensorrt": tensorrt or bindings.__version__,
        "device": {"name": "Stand-in GPU", "compute_capability": "5.3"},
        "graphs": {name: entry.sha256 for name, entry in manifest.files.items()},
        "flags": {},
        "engines": {"prefill": prefill},
        "build": {},
    }
    if layout == "split":
        record["engines"]["decode"] = {"tokens": [1, 1], "rows": [1, 1]}
    plans = {}
    for kind in record["engines"]:
        graph = bundle.file(manifest.graphs[kind].file)
        number = computed_by(graph, cache_dtype) if compute else 0
        plans[kind] = plan_text(manifest, kind, record, number)
    if change is not None:
        change(record, plans)
    folder = os.path.join(path, "engines", record["key"])
    os.makedirs(folder)
    for kind, text in plans.items():
        content = text.encode("ascii")
        with open(os.path.join(folder, kind + ".plan"), "wb") as file:
            file.write(content)
        digest = hashlib.sha256(content).hexdigest()
        record["engines"][kind].update(file=kind + ".plan", bytes=len(content), sha256=digest)
    with open(os.path.join(folder, "engine.json"), "w", encoding="ascii") as file:
        file.write(engine_json(record))
    found = read_engine_set(bundle, record["key"])
    assert isinstance(found, EngineSet)
    return found


def compute_built(bundle, engines):
    """Let ONNX Runtime compute engines that the builder made, whose plans hold a number each."""
    for kind, engine in engines.engines.items():
        with open(plan_path(bundle, engines, engine), encoding="ascii") as file:
            number = int(file.readline().split()[1])
        made = computed_by(bundle.file(bundle.manifest.graphs[kind].file), engines.cache_dtype)
        _sessions[number] = _sessions.pop(made)
        _halves.discard(made)
        if engines.cache_dtype == "float16":
            _halves.add(number)


def memory(address, shape, dtype):
    """A numpy view of "device" memory."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    buffer = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(buffer, dtype).reshape(shape)


failures = []  # what went wrong in the executor, which can raise nothing


@EXECUTOR
def execute(number, count, names, addresses, sizes, ranks):
    """Compute one engine. Half-precision rows are widened, and rounded on their way out."""
    try:
        session = _sessions[number]
        where = {}
        for index in range(count):
            shape = tuple(sizes[8 * index + axis] for axis in range(ranks[index]))
            where[names[index].decode("ascii")] = (addresses[index], shape)
        feeds = {}
        for tensor in session.get_inputs():
            address, shape = where[tensor.name]
            view = memory(address, shape, _dtype(number, tensor))
            feeds[tensor.name] = view.astype(TYPES[tensor.type])
        outputs = session.get_outputs()
        results = session.run([tensor.name for tensor in outputs], feeds)
        for tensor, result in zip(outputs, results):
            address, shape = where[tensor.name]
            assert result.shape == shape, (tensor.name, result.shape, shape)
            memory(address, shape, _dtype(number, tensor))[...] = result
        return 0
    except Exception as error:
        failures.append(repr(error))
        return 1


def _dtype(number, tensor):
    cached = tensor.name.startswith(("past.", "new."))
    return "float16" if cached and number in _halves else TYPES[tensor.type]
