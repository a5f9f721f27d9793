"""What a token costs outside `Backend.step`: the loop, text, stop rules and stats.

    python benchmarks/host_time.py BUNDLE [--tokens N] [--rounds N] [--json]

Each round streams greedily from the bundle's golden prompt. A clock around `step` splits the
time of a token in two; the median of a round is taken, then the median of the rounds. The last
line of stdout with --json is one JSON document.
"""

import argparse
import json
import sys
from statistics import median
from time import perf_counter
from typing import Any, Dict, List, Optional

from conditions import conditions, shown

import edgeformer


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        with edgeformer.load(options.bundle, threads=options.threads) as model:
            report = measure(model, options.tokens, options.rounds)
    except edgeformer.EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps(report))
        return 0
    print("conditions\n" + shown(report["conditions"]))
    print(f"time of a token, median of {options.rounds} rounds (lowest to highest)")
    for key in ("step_us", "outside_us"):
        low, high = report[key + "_range"]
        print(f"  {key[:-3]:8} {report[key]:9.1f} us   ({low:.1f} to {high:.1f})")
    print(f"  outside / whole {report['outside_share']:.2%}")
    return 0


def measure(model: "edgeformer.Model", tokens: int, rounds: int) -> Dict[str, Any]:
    """Medians in microseconds, over `rounds` after one that warms up."""
    prompt = list(model.bundle.manifest.golden.prompt_ids)
    room = model.bundle.manifest.capacity - len(prompt) + 1
    if tokens > room:
        raise edgeformer.EdgeformerError(
            f"--tokens {tokens} do not fit: {room} follow the golden prompt in this bundle"
        )
    clock = _StepClock(model.backend)
    steps, outsides = [], []
    for index in range(rounds + 1):
        del clock.seconds[:]
        ends = [perf_counter()]
        # The end token is not looked at: every round has the same number of tokens.
        stream = edgeformer.SamplingParams(max_new_tokens=tokens)
        for _ in _endless(model, prompt, stream):
            ends.append(perf_counter())
        if index == 0:
            continue
        whole = [b - a for a, b in zip(ends[1:], ends[2:])]  # from the second token on
        inside = clock.seconds[-len(whole) :]
        steps.append(median(inside) * 1e6)
        outsides.append(median(w - i for w, i in zip(whole, inside)) * 1e6)
    step, outside = median(steps), median(outsides)
    return {
        "conditions": conditions(model, tokens=tokens, rounds=rounds, prompt_tokens=len(prompt)),
        "step_us": step,
        "step_us_range": [min(steps), max(steps)],
        "outside_us": outside,
        "outside_us_range": [min(outsides), max(outsides)],
        "outside_share": outside / (step + outside),
    }


def _endless(model: "edgeformer.Model", prompt: List[int], params: Any) -> Any:
    """A stream through the whole of Model.stream, blind to end tokens."""
    model._eos_ids = frozenset()
    return model.stream(prompt, params)


class _StepClock:
    """Stands in front of a backend's `step` and notes what each call takes."""

    def __init__(self, backend: Any) -> None:
        self.seconds = []  # type: List[float]
        step = backend.step

        def timed(*arguments: Any) -> Any:
            started = perf_counter()
            output = step(*arguments)
            self.seconds.append(perf_counter() - started)
            return output

        backend.step = timed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/host_time.py",
        description="What a token costs outside Backend.step, greedy, with its share.",
    )
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens a round (128)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds after a warm-up (7)")
    parser.add_argument("--threads", type=int, help="CPU threads (one for each physical core)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


if __name__ == "__main__":
    sys.exit(main())
