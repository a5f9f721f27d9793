"""A bundle profiled here: loaded without the profiler, with it, and without it once more."""

import os
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import edgeformer
from edgeformer.backends import open_ort
from edgeformer.backends.threads import default_threads
from edgeformer.bench import conditions, worker
from edgeformer.bench.cases import model_of
from edgeformer.bench.profile.figures import figures
from edgeformer.bench.profile.samples import REPEATS, Phase, Wanted, taken
from edgeformer.bench.profile.trace import MOST_EVENTS, Run, read_runs
from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_sets
from edgeformer.errors import EdgeformerError
from edgeformer.model import Model
from edgeformer.speed.costs import Steps
from edgeformer.speed.probe import PASSES, read_bandwidth, samples

FORMAT = 1
ROWS, NEW_TOKENS, MOST_TOKENS = 64, 48, 4096
EVENTS = 3  # of a node in onnxruntime 1.10; later releases write one

Say = Callable[[str], None]


def wanted_of(
    bundle: Bundle,
    rows: Optional[Sequence[int]],
    new_tokens: Optional[int],
    prompts: Optional[Sequence[int]],
    seed: int,
) -> Wanted:
    """What was asked for, refused where it does not fit; else what does."""
    capacity = bundle.manifest.capacity
    if rows is not None and len(rows) != 1:
        raise EdgeformerError("--profile decodes behind one number of rows; give --rows N")
    chosen = min(ROWS, capacity // 2) if rows is None else rows[0]
    room = capacity - chosen + 1
    if chosen < 1 or room < worker.WARM_TOKENS:
        raise EdgeformerError(
            f"--rows is {chosen}; {worker.WARM_TOKENS} tokens must follow in the capacity of "
            f"{capacity}: give 1 to {capacity - worker.WARM_TOKENS + 1}"
        )
    most = min(room, MOST_TOKENS)
    new = min(NEW_TOKENS, room) if new_tokens is None else new_tokens
    if not worker.WARM_TOKENS <= new <= most:
        raise EdgeformerError(
            f"--new-tokens is {new}; behind {chosen} rows of {capacity} it may be "
            f"{worker.WARM_TOKENS} to {most}"
        )
    for length in prompts or ():
        if not 1 <= length <= capacity:
            raise EdgeformerError(f"--prompt-tokens has {length}; it may have 1 to {capacity}")
    return Wanted(chosen, new, tuple(sorted(set(prompts or ()))), seed)


def refuse_engines(bundle: Bundle, backend: str) -> None:
    """Engines have profiles of their own, of layers that TensorRT has named."""
    if backend not in ("auto", "ort", "trt"):
        raise EdgeformerError(f"no backend is called {backend[:40]!r}; choose auto, ort, trt")
    if backend == "trt" or (backend == "auto" and engine_sets(bundle)[0]):
        raise EdgeformerError(
            "--profile takes the graphs apart as ONNX Runtime runs them, and this bundle would run "
            "on TensorRT; profile it on the CPU with --backend ort, or an engine with TensorRT's "
            "own program: trtexec --loadEngine=BUNDLE/engines/KEY/FILE --dumpProfile"
        )


def profile(
    bundle: Bundle, wanted: Wanted, threads: Optional[int], command: Sequence[str], say: Say
) -> Dict[str, Any]:
    """The whole document."""
    threads = default_threads() if threads is None else threads
    steps = Steps(bundle, bundle.manifest.precision, True)
    half_way = steps.decode(wanted.rows + wanted.new_tokens // 2)
    _refuse_too_long(wanted, half_way.nodes, bundle.manifest.chunk)
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    machine = conditions.machine()
    rates = [_rate(half_way.bytes, threads)]
    found: List[List[Phase]] = []
    runs: List[Run] = []
    for profiled in (False, True, False):
        say(f"{bundle.path}: {'with' if profiled else 'without'} the profiler")
        phases, these = _once(bundle, wanted, threads, profiled)
        found.append(phases)
        runs += these
    rates.append(_rate(half_way.bytes, threads))
    machine["bandwidth_bytes_per_s"] = {
        "at_start": rates[0],
        "at_end": rates[1],
        "working_set_bytes": half_way.bytes,
        "threads": threads,
    }
    machine["packages"] = conditions.packages([{"packages": worker.packages()}])
    before, with_it, after = found
    return {
        "format": FORMAT,
        "kind": "profile",
        "made": made,
        "command": list(command),
        "edgeformer": edgeformer.__version__,
        "commit": conditions.commit(),
        "machine": machine,
        "model": model_of(bundle, bundle.manifest.precision),
        "backend": "ort",
        "threads": threads,
        "settings": dict(wanted._asdict(), prompts=list(wanted.prompts)),
        "phases": [
            figures(phase, [one, other], runs, steps, wanted.rows)
            for phase, one, other in zip(with_it, before, after)
        ],
    }


def _once(
    bundle: Bundle, wanted: Wanted, threads: int, profiled: bool
) -> Tuple[List[Phase], List[Run]]:
    """Load, take all phases, and read what the profiler wrote, which is then deleted."""
    from edgeformer.text import open_tokenizer

    tokenizer = None if bundle.manifest.tokenizer is None else open_tokenizer(bundle)
    with tempfile.TemporaryDirectory(prefix="edgeformer-profile-") as folder:
        prefix = os.path.join(folder, "profile") if profiled else None
        with open_ort(bundle, threads, prefix) as backend:
            phases, count = taken(Model(bundle, backend, tokenizer), wanted)
            runs = read_runs(backend.end_profile()) if profiled else []
    if profiled and len(runs) != count:
        raise EdgeformerError(
            f"{count} steps were run and onnxruntime's profile has {len(runs)} runs; measure again"
        )
    return phases, runs


def _refuse_too_long(wanted: Wanted, nodes: int, chunk: int) -> None:
    """Rather than have onnxruntime drop events without a word."""
    steps = worker.WARM_TOKENS + wanted.new_tokens + 2 * (wanted.rows // chunk + 1)
    steps += sum((REPEATS + 1) * -(-length // chunk) for length in wanted.prompts)
    if steps * (nodes + 2) * EVENTS > MOST_EVENTS:
        raise EdgeformerError(
            f"{steps} steps of {nodes} nodes are more than onnxruntime's profiler keeps "
            f"({MOST_EVENTS} events); give fewer --new-tokens or shorter --prompt-tokens"
        )


def _rate(size: int, threads: int) -> float:
    (found,) = samples([read_bandwidth(size, threads)], PASSES)
    return found.middle
