"""How much of this machine's read bandwidth a token takes, probed in the run that timed it."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgeformer.backends.threads import default_threads
from edgeformer.bench.cases import Case, Settings
from edgeformer.bench.statistics import median
from edgeformer.bundle import Bundle
from edgeformer.speed.costs import Steps
from edgeformer.speed.probe import PASSES, read_bandwidth, samples

Size = Tuple[int, int]  # bytes that a token reads, threads that read them


class Bandwidth:
    """Of cases on the CPU: small models are read from caches, so each has its own probe.

    It drifts on shared machines: probe before the rounds and behind them.
    """

    def __init__(self, cases: Sequence[Case], settings: Settings) -> None:
        rows = settings.prompt_tokens[0] + settings.new_tokens // 2  # half-way through decoding
        self._sizes = [_size(case, rows) for case in cases]
        self._seen: Dict[Size, List[float]] = {size: [] for size in self._sizes if size is not None}

    def probe(self) -> None:
        for (size, threads), seen in self._seen.items():
            (found,) = samples([read_bandwidth(size, threads)], PASSES)
            seen.append(found.middle)

    def told(self) -> Optional[Dict[str, Any]]:
        """The probes of the largest case, as the document has them."""
        largest = max((size for size in self._seen if self._seen[size]), default=None)
        if largest is None:
            return None
        seen = self._seen[largest]
        return {
            "at_start": seen[0],
            "at_end": seen[-1] if len(seen) > 1 else None,
            "working_set_bytes": largest[0],
            "threads": largest[1],
        }

    def share(self, index: int, token_s: float) -> Optional[float]:
        """Bytes that a token reads, through its seconds, through the bandwidth at that size."""
        size = self._sizes[index]
        if size is None or not self._seen[size]:
            return None
        return size[0] / token_s / median(self._seen[size])


def _size(case: Case, rows: int) -> Optional[Size]:
    """None where no CPU reads the weights."""
    if case.backend != "ort":
        return None
    step = Steps(Bundle.open(case.path), case.precision, True).decode(min(rows, case.capacity))
    return step.bytes, case.threads or default_threads()
