"""A whole run: cases in, a document out."""

import time
from typing import Any, Callable, Dict, List, Optional, Sequence

import edgeformer
from edgeformer.backends.threads import default_threads
from edgeformer.bench import conditions
from edgeformer.bench.bandwidth import Bandwidth
from edgeformer.bench.cases import Case, Settings
from edgeformer.bench.document import FORMAT
from edgeformer.bench.rounds import Measured, Taken, take_rounds
from edgeformer.bench.side_by_side import take_side_by_side
from edgeformer.bench.summary import comparisons, summary
from edgeformer.device.monitor import Monitor
from edgeformer.errors import EdgeformerError

SAMPLES = 1000  # at most, in a document

Say = Callable[[str], None]


class Run:
    """A document, and what the command line needs beside it."""

    def __init__(self, document: Dict[str, Any], interrupted: bool) -> None:
        self.document = document
        self.interrupted = interrupted

    @property
    def failed(self) -> bool:
        """A case died, or did not give its golden tokens."""
        return any(
            case["error"] is not None or case["parity"]["passed"] is False
            for case in self.document["cases"]
        )


def measure(
    cases: Sequence[Case],
    settings: Settings,
    command: Sequence[str],
    say: Say,
    kind: str = "bench",
) -> Run:
    """Measure all cases here. EdgeformerError where no case can run at all."""
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    began = time.perf_counter()
    machine = conditions.machine()  # the load average before our own load
    bandwidth = Bandwidth(cases, settings)
    bandwidth.probe()
    take = take_side_by_side if settings.side_by_side else take_rounds
    with Monitor() as monitor:
        taken = take(cases, settings, monitor, say)
    _refuse_nothing(taken)
    interrupted = taken.interrupted
    if not interrupted:
        try:
            bandwidth.probe()
        except KeyboardInterrupt:  # the rounds are whole, and are kept
            interrupted = True
    machine["bandwidth_bytes_per_s"] = bandwidth.told()
    machine["packages"] = conditions.packages([found.about for found in taken.cases])
    listed = [_case(case, found) for case, found in zip(cases, taken.cases)]
    for index, case in enumerate(listed):
        if case["summary"] is not None:
            token_s = case["summary"]["token_s"]["median"]
            case["summary"]["roofline_share"] = bandwidth.share(index, token_s)
    document = {
        "format": FORMAT,
        "kind": kind,
        "made": made,
        "seconds": round(time.perf_counter() - began, 3),
        "command": list(command),
        "edgeformer": edgeformer.__version__,
        "commit": conditions.commit(),
        "complete": not taken.interrupted and all(case["error"] is None for case in listed),
        "machine": machine,
        "settings": told(settings, taken),
        "cases": listed,
        "comparisons": comparisons(listed, settings.confidence),
        "samples": thinned(monitor.samples),
    }
    return Run(document, interrupted)


def told(settings: Settings, taken: Taken) -> Dict[str, Any]:
    """The settings as a document has them."""
    found = dict(settings._asdict())
    del found["side_by_side"]
    for key in ("prompt_tokens", "rows"):
        found[key] = list(found[key])
    if taken.side_by_side is not None:
        found["side_by_side"] = taken.side_by_side
    return found


def thinned(samples: Sequence[Dict[str, Any]], most: int = SAMPLES) -> List[Dict[str, Any]]:
    """Every so manieth sample. The rounds' own figures come from all of them."""
    every = -(-len(samples) // most) or 1
    return list(samples[::every])


def _refuse_nothing(taken: Taken) -> None:
    """Where every case was refused before its first round, the user has something to change."""
    if taken.cases and all(found.refused and not found.rounds for found in taken.cases):
        reasons = dict.fromkeys(str(found.error) for found in taken.cases)
        raise EdgeformerError("; ".join(reasons))


def _case(case: Case, found: Measured) -> Dict[str, Any]:
    about = found.about
    untold: Optional[int] = 0 if case.backend == "trt" else default_threads()
    return {
        "name": case.name,
        "backend": about.get("backend", case.backend),
        "precision": about.get("precision", case.precision),
        "threads": about.get("threads", case.threads or untold),
        "engine": None,
        "model": case.model,
        "parity": about.get("parity") or {"passed": None, "what": "no round ended"},
        "error": found.error,
        "rounds": found.rounds,
        "summary": summary(found.rounds),
    }
