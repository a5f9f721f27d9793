"""Host time of one TensorRT step outside the engine: ours, pycuda's and the bindings', no GPU's.

Runs over the stand-in libraries of tests/standin with the arithmetic switched off, so it says what
the Python side of a step costs on this machine, and nothing about an engine or a board. The copies
that a GPU would do are done by this CPU; the rows are narrow, so that they are cheap.

    make test-standin                                       # once: the bindings and pycuda
    .venv/bin/python benchmarks/trt_host_time.py [RELEASE]  # the last line is one JSON document
"""

import json
import os
import platform
import sys
import tempfile
import tracemalloc
from time import perf_counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import numpy as np  # noqa: E402

from tests import bundles  # noqa: E402
from tests.standin import libraries  # noqa: E402

LAYERS, VOCABULARY, CAPACITY = 12, 4096, 2048
WARM, STEPS = 100, 1500
LIMITS_US = {"host": 120, "py36": 250}


def twelve_layers(folder):
    """A bundle whose manifest declares 12 layers; its graphs are never loaded."""
    from edgeformer.contract import portable_graph

    path = bundles.copied(bundles.ROPE, folder)

    def change(data):
        model = data["model"]
        model.update(n_layers=LAYERS, vocab_size=VOCABULARY, max_positions=CAPACITY)
        data["capacity"] = CAPACITY
        for kind, graph in data["graphs"].items():
            declared = portable_graph(kind, graph["file"], model)
            for key in ("inputs", "outputs"):
                graph[key] = [spec._asdict() for spec in getattr(declared, key)]

    bundles.edited(path, change)
    return path


def measured(backend, want):
    """Microseconds of each step, and bytes that Python holds more after them than before."""
    backend.truncate(0)
    for position in range(WARM):
        backend.step([position], [position], [0], want)
    times = []
    for position in range(WARM, WARM + STEPS):
        started = perf_counter()
        backend.step([position], [position], [0], want)
        times.append(1e6 * (perf_counter() - started))
    backend.truncate(WARM)
    tracemalloc.start()
    for position in range(WARM, WARM + 50):
        backend.step([position], [position], [0], want)
    before = tracemalloc.get_traced_memory()[0]
    for position in range(WARM + 50, WARM + 1050):
        backend.step([position], [position], [0], want)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return times, grown


def main(arguments):
    release = arguments[0] if arguments else libraries.releases()[0]
    folder = tempfile.mkdtemp()
    standin = libraries.load(release, folder)
    from edgeformer.backends import open_backend
    from edgeformer.bundle import Bundle
    from tests.standin.arithmetic import add_engines

    path = twelve_layers(folder)
    add_engines(path, compute=False)
    results = {}
    for graph in (True, False):
        for want in ("token", "logits"):
            with open_backend(Bundle.open(path), "trt", cuda_graph=graph) as backend:
                times, grown = measured(backend, want)
            name = want + (", CUDA graph" if graph else "")
            results[name] = {
                "median_us": round(float(np.median(times)), 1),
                "p95_us": round(float(np.percentile(times, 95)), 1),
                "bytes_more_after_1000_steps": grown,
            }
            print(
                "%-20s median %6.1f us, 95 %% %6.1f us" % (name, *list(results[name].values())[:2])
            )
    assert standin.fault() == ""
    document = {
        "what": "host time of one TensorRT step outside the engine, stand-in, no GPU",
        "bindings": release,
        "python": platform.python_version(),
        "layers": LAYERS,
        "vocabulary": VOCABULARY,
        "limit_us": LIMITS_US[libraries.PYTHON],
        "steps": results,
    }
    print(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
