"""What every worker does: one request on stdin, one line of JSON on stdout, whatever the engine.

Standard library and numpy, because every engine's environment runs it.
"""

import json
import os
import sys
from importlib.metadata import version
from time import perf_counter
from typing import Any, Callable, Dict, List

import numpy as np

from benchmarks.quantization.divergence import divergence

WARM_TOKENS = 4


class Engine:
    """A loaded model, greedy, with one cache. Nothing ends at an end token."""

    packages = ()  # type: Sequence[str]  # whose versions belong to a result

    def __init__(self, request: Dict[str, Any]) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Empty the cache. What this takes is not counted."""
        raise NotImplementedError

    def first(self, ids: List[int]) -> int:
        """Read a prompt into an empty cache and give the token that follows."""
        raise NotImplementedError

    def next(self, token: int) -> int:
        """The token after this one, which is what the last call gave."""
        raise NotImplementedError

    def logits(self, ids: List[int]) -> np.ndarray:
        """float32 [len(ids), vocab], from an empty cache."""
        raise NotImplementedError


def serve(open_engine: Callable[[Dict[str, Any]], Engine]) -> None:
    """Answer the one request of this process.

    Engines print as they like: all of that goes to stderr.
    """
    answer = os.dup(1)
    os.dup2(2, 1)
    request = json.load(sys.stdin)
    reply = {"time": time_engine, "quality": measure_quality, "reference": make_reference}[
        request["what"]
    ](open_engine, request)
    with os.fdopen(answer, "w") as file:
        file.write(json.dumps(reply) + "\n")


def time_engine(open_engine: Callable, request: Dict[str, Any]) -> Dict[str, Any]:
    """Load, warm up, then for each prompt: time to first token and time of each further one."""
    started = perf_counter()
    engine = open_engine(request)
    loaded = perf_counter()
    rss = memory("VmRSS")
    prompts = request["prompts"]  # ids, by their number as text
    _continue(engine, next(iter(prompts.values())), WARM_TOKENS)
    warm = perf_counter()
    reply = {
        "load_s": loaded - started,
        "warmup_s": warm - loaded,
        "loaded_rss_bytes": rss,
        "first_token_s": {},
        "token_s": {},
        "tokens": {},
    }
    for length, ids in prompts.items():
        firsts = []
        for last in [False] * (request["first_tokens"] - 1) + [True]:
            count = request["new_tokens"] if last else 1
            tokens, seconds = _continue(engine, ids, count)
            firsts.append(seconds[0])
        reply["first_token_s"][length] = firsts
        reply["token_s"][length] = seconds[1:]
        reply["tokens"][length] = tokens
    reply["peak_rss_bytes"] = memory("VmHWM")
    reply["huge_bytes"] = huge_bytes()
    reply["versions"] = {name: version(name) for name in engine.packages}
    return reply


def _continue(engine: Engine, ids: List[int], count: int) -> Any:
    """The tokens that follow, and the seconds that each took; the first one's hold the prompt."""
    engine.reset()
    started = perf_counter()
    token = engine.first(ids)
    now = perf_counter()
    tokens, seconds = [token], [now - started]
    for _ in range(count - 1):
        started = now
        token = engine.next(token)
        now = perf_counter()
        tokens.append(token)
        seconds.append(now - started)
    return [int(token) for token in tokens], seconds


def measure_quality(open_engine: Callable, request: Dict[str, Any]) -> Dict[str, float]:
    """Perplexity, KL and top-1 on windows of a text, against logits that `make_reference` left."""
    engine = open_engine(request)
    return divergence(request["windows"], np.load(request["reference"], "r"), engine.logits)


def make_reference(open_engine: Callable, request: Dict[str, Any]) -> Dict[str, Any]:
    """Leave the logits of every window in a file; the greedy tokens after each prompt, with the
    distance of each token's logit to the next best."""
    engine = open_engine(request)
    np.save(request["reference"], np.stack([engine.logits(ids) for ids in request["windows"]]))
    tokens, margins = {}, {}
    for length, ids in request["prompts"].items():
        tokens[length], _ = _continue(engine, ids, request["new_tokens"])
        engine.reset()
        logits = engine.logits(ids + tokens[length][:-1])[len(ids) - 1 :]
        best = np.partition(logits, -2, axis=1)[:, -2:]
        margins[length] = (best.max(1) - best.min(1)).astype(float).tolist()
    return {"tokens": tokens, "margins": margins}


def memory(key: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {key}")


def huge_bytes() -> Any:
    """Bytes of this process in huge pages, or None where the kernel does not say."""
    try:
        with open("/proc/self/smaps_rollup") as file:
            found = [line for line in file if line.startswith("AnonHugePages:")]
    except OSError:
        return None
    return int(found[0].split()[1]) * 1024 if found else None
