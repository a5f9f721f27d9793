"""What this machine allows: bytes read a second, multiply-adds a second, the cost of a node.

Read bandwidth is numpy's, and needs nothing else: `dot(x, x)` and `max` read an array once and
write nothing. The faster of the two counts, as which one is depends on the numpy (on an EPYC with
numpy 2.4 `dot` read 57 GB/s from cache where `sum` read 24 and a copy moved 55; numpy 1.19 has a
slow `dot` and a fast `max`). Bytes read are counted, once a pass; a copy would have to be counted
as reads, writes and the reads that writes cause, which differ by machine. Each thread has its part
of the array, as the threads of a product have.

Products and nodes are ONNX Runtime's own, in small graphs of a bundle's matrices and heads: their
weights are random bytes, as many as a model's.
"""

import threading
from statistics import median
from time import perf_counter
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from edgeformer.backends import ort_module
from edgeformer.backends.rows import RowCache
from edgeformer.backends.steps import StepLimits, most_likely
from edgeformer.contract import STEP
from edgeformer.speed import graphs
from edgeformer.speed.costs import Matrix

PASSES = 9
# Of one timed pass: long enough for the clock and a thread's start, shorter than a turn of the
# scheduler, so that on a busy machine most passes are undisturbed, as most steps of a model are.
LEAST_SECONDS = 1e-3
RUNS = 5  # of a small graph, for each pass
MOST_BYTES = 256 << 20  # an array larger than any last-level cache tells nothing more
LEAST_BYTES = 256 << 10
CACHED_WEIGHTS = 4 << 20  # bytes of weights in a probe of what is computed, not read
MOST_WEIGHTS = 64 << 20  # ... and of what is read
LAYERS = 8


class Samples(NamedTuple):
    """Several measurements of one thing, as rates or seconds."""

    values: Tuple[float, ...]

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def middle(self) -> float:
        return median(self.values)


Sampler = Callable[[], float]  # takes one more sample of a figure


def samples(samplers: Sequence[Sampler], passes: int) -> List[Samples]:
    """Some of each, by turns, so that a machine that slows down does so for all."""
    found = [[sampler() for sampler in samplers] for _ in range(passes)]
    return [Samples(values) for values in zip(*found)]


def read_bandwidth(working_set: int, threads: int) -> Sampler:
    """Bytes read a second from an array of `working_set` bytes."""
    size = max(LEAST_BYTES, min(MOST_BYTES, working_set)) // 4 // threads
    parts = [_numbers(size) for _ in range(threads)]
    once = {reading: min(_pass(parts, reading, 1) for _ in range(3)) for reading in _readings()}
    best = min(once, key=lambda reading: once[reading])
    repeats = max(1, int(LEAST_SECONDS / max(once[best], 1e-7)))
    total = 4 * size * threads * repeats
    return lambda: total / _pass(parts, best, repeats)


def _readings() -> Tuple[Callable[[np.ndarray], Any], ...]:
    return _dot, _largest


def _numbers(size: int) -> np.ndarray:
    """float32 numbers in memory from malloc, where ONNX Runtime's weights are too.

    numpy asks for huge pages for its own arrays, which read up to twice as fast.
    """
    array = np.frombuffer(bytearray(4 * size), np.float32)
    array[:] = 0.5
    return array


def _dot(part: np.ndarray) -> Any:
    return np.dot(part, part)


def _largest(part: np.ndarray) -> Any:
    return part.max()


def _pass(parts: List[np.ndarray], reading: Callable[[np.ndarray], Any], repeats: int) -> float:
    """Seconds until the slowest thread has read its part so often. numpy lets the GIL go."""
    ready = threading.Barrier(len(parts) + 1)

    def work(part: np.ndarray) -> None:
        reading(part)  # brings caches back
        ready.wait()
        for _ in range(repeats):
            reading(part)

    # daemons: Ctrl-C while they start leaves some waiting for others that never come
    workers = [threading.Thread(target=work, args=(part,), daemon=True) for part in parts]
    for worker in workers:
        worker.start()
    ready.wait()
    started = perf_counter()
    for worker in workers:
        worker.join()
    return perf_counter() - started


def node_seconds(model: Dict[str, Any], threads: int) -> Sampler:
    """Seconds of one of the small nodes between a model's matrices, on average.

    What a few layers take more with their nodes than without: a product before each node leaves
    caches as it finds them in a model.
    """
    kv_heads = model["n_kv_heads"]
    group = max(1, model.get("n_heads", kv_heads) // kv_heads)
    sizes = kv_heads, group, model["head_dim"]
    pair = [graphs.layers(LAYERS, *sizes, nodes=nodes) for nodes in (False, True)]
    bare, whole = (_bound(graph, threads) for graph in pair)
    added = pair[1].nodes - pair[0].nodes
    return lambda: max(0.0, (_seconds(whole) - _seconds(bare)) / added)


def product_rate(matrices: Sequence[Matrix], tokens: int, threads: int, most_bytes: int) -> Sampler:
    """Multiply-adds a second of ONNX Runtime's products of `tokens` tokens with such matrices.

    As many as `most_bytes` hold, the last ones first, as a head is larger than a layer; with the
    bytes of a model's, what ONNX Runtime's kernels can read is measured, and not only computed.
    """
    left = min(most_bytes, MOST_WEIGHTS) * 8
    chosen: List[Matrix] = []
    for matrix in reversed(matrices):
        fitting = left // (2 if not chosen else 1) // matrix.bits // matrix.inner
        if fitting >= min(64, matrix.outer):
            chosen.append(matrix._replace(outer=min(matrix.outer, fitting)))
            left -= chosen[-1].elements * matrix.bits
    bound = _bound(graphs.products(chosen, tokens), threads)
    work = tokens * sum(m.elements for m in chosen)
    runs = 3 if tokens == 1 else 1
    return lambda: work / _seconds(bound, runs)


def host_seconds(manifest: Any) -> Sampler:
    """Seconds of a step of one token that are Python's: checked, its token found; where the graph
    does not do both itself, its rows kept and its logits searched."""
    model, limits = manifest.model, StepLimits.of(manifest)
    layers, width = 2 * model["n_layers"], model["n_kv_heads"] * model["head_dim"]
    cache = RowCache(layers, graphs.BUCKET, width)
    rows, positions = np.zeros((layers, 1, width), np.float32), np.zeros(3, np.int32)
    logits = np.zeros((1, model["vocab_size"]), np.float32)

    def work() -> None:
        limits.check([1], [1], [0], "token")
        for index, value in enumerate(([1], [1], [0])):
            positions[index : index + 1] = value
        if STEP in manifest.graphs:
            return
        cache.past()
        cache.truncate(0)
        cache.append(rows, positions[:1], 1)
        most_likely(logits)

    return lambda: _seconds(work)


def _bound(graph: graphs.ProbeGraph, threads: int) -> Callable[[], None]:
    """A function that runs a graph once; it has run before."""
    outputs = {name: np.zeros(shape, np.float32) for name, shape in graph.outputs.items()}
    run = ort_module().BoundGraph(graph.model, threads, graph.inputs, outputs).run
    run()
    run()
    return run


def _seconds(work: Callable[[], None], runs: int = RUNS) -> float:
    """The median of a few runs, after one that brings caches back."""
    work()
    found = []
    for _ in range(runs):
        started = perf_counter()
        work()
        found.append(perf_counter() - started)
    return median(found)
