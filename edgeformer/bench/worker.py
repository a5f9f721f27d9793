"""The process that measures one round of one case, started by `bench.turn` and by nobody else.

It reads a job from stdin and answers on stdout, one JSON object a line: {"phase": ..., "at": ...}
as a phase begins, and at the end {"done": {...}} or {"failed": text}; where the job says so, it
waits in between for what `bench.blocks` tells it to do. Times of `at` are those of
`time.perf_counter`, which Linux counts from the same moment for every process. What libraries
print goes to stderr.
"""

import json
import sys
from time import perf_counter
from typing import Any, Dict, List, Sequence

from edgeformer.bench import answering
from edgeformer.bench.blocks import Decoding, Ordered, Tell, decode_in_blocks
from edgeformer.errors import EdgeformerError

WARM_TOKENS = 4
REPEATS, ENOUGH_S = 5, 0.5  # of a time to first token: five, or fewer once they took that long
STEPS = 8  # at each number of rows in use


def main(parent: int) -> None:
    """Do one job."""
    job, answers = answering.begin(parent)

    def tell(message: Dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    try:
        tell({"done": _done(job, tell)})
    except EdgeformerError as error:
        tell({"failed": str(error)})
    except MemoryError:
        tell({"failed": "no memory was left"})
    answering.end(answers)


def _done(job: Dict[str, Any], tell: Tell) -> Dict[str, Any]:
    """Load, measure, and compare the golden run where that is asked for."""
    from edgeformer import load
    from edgeformer.device.memory import process_memory

    _phase(tell, "load")
    started = perf_counter()
    model = load(job["path"], job["backend"], job["threads"], engines=job["engines"])
    found = {"load_s": perf_counter() - started}
    found["loaded_rss_bytes"] = process_memory().rss_bytes
    if job["busy"]:
        slow_down(model.backend, job["busy"])
    found.update(measure(model, job, tell))
    memory = process_memory()
    found.update(peak_rss_bytes=memory.peak_rss_bytes, huge_bytes=memory.huge_bytes)
    backend = model.backend
    about = {
        "backend": backend.name,
        "reason": backend.reason,
        "precision": backend.precision,
        "threads": backend.threads,
        "packages": packages(),
        "parity": None,
    }
    if job["golden"]:
        _phase(tell, "golden")
        about["parity"] = parity(model)
    return {"round": found, "about": about}


def measure(
    model: Any, job: Dict[str, Any], tell: Tell, ordered: Ordered = answering.ordered
) -> Dict[str, Any]:
    """Every time of a loaded model: the keys of a round in the document that are seconds."""
    model._eos_ids = frozenset()  # every round has the same number of tokens
    backend, lengths = model.backend, job["prompt_tokens"]
    clock = StepClock(backend)
    prompts = {length: prompt_ids(model, length, job["seed"]) for length in lengths}
    first = prompts[lengths[0]]

    _phase(tell, "warm-up")
    started = perf_counter()
    streamed(model, first, WARM_TOKENS)
    found: Dict[str, Any] = {"warmup_s": perf_counter() - started}

    _phase(tell, "prefill")
    found["first_token_s"] = {
        str(length): _first_tokens(model, prompts[length]) for length in lengths
    }

    _phase(tell, "decode")
    decoding = Decoding(
        lambda: _stream(model, first, job["new_tokens"]), job["new_tokens"], clock.seconds
    )
    if job.get("waits"):
        found.update(decode_in_blocks(decoding, tell, ordered))
    else:
        found["token_s"], found["outside_s"] = decoding.block(job["new_tokens"] - 1)

    _phase(tell, "rows")
    found["rows_s"] = _by_rows(backend, model.bundle.manifest, job["rows"], first)
    _phase(tell, "end")
    return found


def prompt_ids(model: Any, length: int, seed: int) -> List[int]:
    """Ids drawn from the whole vocabulary: the same on every Python and numpy."""
    import numpy as np

    vocabulary = model.bundle.manifest.model["vocab_size"]
    return [int(i) for i in np.random.RandomState(seed).randint(0, vocabulary, length)]


def parity(model: Any) -> Dict[str, Any]:
    """The golden run on this machine, in words."""
    from edgeformer.generation.golden import golden_run

    manifest, precision = model.bundle.manifest, model.backend.precision
    found = golden_run(model.backend, manifest)
    same = f"{found.steps - len(found.mismatches)} of {found.steps} golden tokens"
    limits = manifest.golden.limits
    passed = found.passed(precision, limits)
    if precision != "fp32":
        if passed is None:
            same += f"; the bundle has no limits for {precision}"
        elif passed:
            same += f", within the limits of {precision}"
        else:
            same += f"; {found.beyond(limits[precision])}"
    return {"passed": passed, "what": same}


class StepClock:
    """Stands in front of a backend's `step` and notes what each call takes."""

    def __init__(self, backend: Any) -> None:
        self.seconds: List[float] = []
        step = backend.step

        def timed(*arguments: Any) -> Any:
            started = perf_counter()
            output = step(*arguments)
            self.seconds.append(perf_counter() - started)
            return output

        backend.step = timed


def slow_down(backend: Any, share: float) -> None:
    """Make each step longer by this share of itself: a slowdown of a known size, for the proof
    that one is found."""
    step = backend.step

    def slower(*arguments: Any) -> Any:
        started = perf_counter()
        output = step(*arguments)
        end = perf_counter() + (perf_counter() - started) * share
        while perf_counter() < end:
            pass
        return output

    backend.step = slower


def _stream(model: Any, prompt: Sequence[int], tokens: int) -> Any:
    from edgeformer.generation.params import SamplingParams

    # A prompt is asked again and again here: each time shall cost what the first one does.
    return model.stream(prompt, SamplingParams(max_new_tokens=tokens), reuse=False)


def streamed(model: Any, prompt: Sequence[int], tokens: int) -> Any:
    """The stats of a greedy stream of exactly so many tokens."""
    stream = _stream(model, prompt, tokens)
    came = sum(1 for _ in stream)
    if came != tokens:
        raise EdgeformerError(
            f"{tokens} tokens were asked for and {came} came ({stream.finish_reason}); give fewer "
            "with --new-tokens"
        )
    return stream.stats


def _first_tokens(model: Any, prompt: Sequence[int]) -> List[float]:
    seconds: List[float] = []
    while len(seconds) < REPEATS and sum(seconds) < ENOUGH_S:
        seconds.append(streamed(model, prompt, 1).first_token_s)
    return seconds


def _by_rows(
    backend: Any, manifest: Any, rows: Sequence[int], ids: Sequence[int]
) -> Dict[str, List[float]]:
    """Seconds of one-token steps behind so many cached rows, which ascend."""
    chunk = min(manifest.chunk, manifest.capacity)
    backend.owner = object()  # the streams before have lost the cache
    backend.truncate(0)
    found, filled = {}, 0
    for wanted in rows:
        while filled < wanted:
            count = min(chunk, wanted - filled)
            part = [ids[position % len(ids)] for position in range(filled, filled + count)]
            backend.step(part, range(filled, filled + count), [count - 1], "token")
            filled += count
        seconds = []
        for _ in range(1 + STEPS):
            started = perf_counter()
            backend.step([ids[0]], [filled], [0], "token")
            seconds.append(perf_counter() - started)
            backend.truncate(filled)
        found[str(wanted)] = seconds[1:]  # the first one binds what the cache has grown to
    return found


def packages() -> Dict[str, Any]:
    """Versions of what was loaded to run the case."""
    found: Dict[str, Any] = {}
    for name in ("numpy", "onnxruntime", "tensorrt", "pycuda"):
        module = sys.modules.get(name)
        version = getattr(module, "__version__", None) or getattr(module, "VERSION_TEXT", None)
        found[name] = None if version is None else str(version)
    return found


def _phase(tell: Tell, name: str) -> None:
    tell({"phase": name, "at": perf_counter()})
