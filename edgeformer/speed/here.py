"""The speed of this machine: its probe at a bundle's sizes, and a short real run."""

from time import perf_counter
from typing import Any, NamedTuple, Tuple

from edgeformer.backends import Backend, ort_module
from edgeformer.speed import probe
from edgeformer.speed.costs import Steps
from edgeformer.speed.predict import Machine, Range

WARM = 3  # steps before any counts


class Measured(NamedTuple):
    """Seconds of each one-token step, and of one prefill step of `tokens` tokens."""

    token_s: Tuple[float, ...]
    prefill_s: Tuple[float, ...]
    tokens: int


class Probe:
    """This machine at a bundle's sizes: bandwidth at its working set, its own matrices."""

    def __init__(self, steps: Steps, past: int, threads: int) -> None:
        ort_module().check_release(steps.manifest.min_onnxruntime)
        model, matrices = steps.manifest.model, steps.matrices()
        chunk, size = chunk_of(steps.manifest), steps.decode(past).bytes
        self.samplers = (
            probe.read_bandwidth(size, threads),
            probe.product_rate(matrices, 1, threads, size),
            probe.product_rate(matrices, chunk, threads, probe.CACHED_WEIGHTS),
            probe.node_seconds(model, threads),
            probe.host_seconds(steps.manifest),
        )

    def machine(self, passes: int = probe.PASSES) -> Machine:
        """What this machine allows the bundle now."""
        found = probe.samples(self.samplers, passes)
        return Machine(*(Range(s.low, s.middle, s.high) for s in found))


def chunk_of(manifest: Any) -> int:
    """Tokens of a full prefill step that leaves room for steps after it."""
    return max(1, min(manifest.chunk, manifest.capacity // 2))


def measure(
    backend: Backend, manifest: Any, past: int, count: int = 24, prompts: int = 2
) -> Measured:
    """A short real run: prefills of a chunk, then steps of one token after `past` rows."""
    chunk = chunk_of(manifest)
    past = min(past, manifest.capacity - WARM - 1)
    count = min(count, manifest.capacity - past - WARM)
    prefill = []
    for _ in range(prompts + 1 if prompts else 0):
        backend.truncate(0)
        prefill.append(_timed(backend, range(chunk)))
    backend.truncate(min(backend.cached, past))
    while backend.cached < past:
        start = backend.cached
        _timed(backend, range(start, min(start + chunk, past)))
    token = [_timed(backend, range(at, at + 1)) for at in range(past, past + WARM + count)]
    backend.truncate(0)
    return Measured(tuple(token[WARM:]), tuple(prefill[1:]), chunk)


def _timed(backend: Backend, positions: Any) -> float:
    ids = [1 + position % 7 for position in positions]
    started = perf_counter()
    backend.step(ids, positions, [len(ids) - 1], "token")
    return perf_counter() - started
