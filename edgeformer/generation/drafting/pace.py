"""How many tokens to draft: as many as pay, by what steps cost and how likely the tokens are.

All by rule and nothing by the clock, so that the same stream takes the same steps wherever and
however often it runs: what is drawn from the logits of several tokens at once may differ in the
last bit from what is drawn token by token, but never from one run to the next.
"""

from typing import Dict, List, NamedTuple, Sequence, Tuple

from edgeformer.backends import Backend
from edgeformer.generation.drafting import Drafter


class Cost(NamedTuple):
    """A step of n > 1 tokens takes `two` + (n - 2) * `more` steps of one token."""

    two: float
    more: float
    most: int  # tokens that a step may verify

    def of(self, tokens: int) -> float:
        return 1.0 if tokens == 1 else self.two + (tokens - 2) * self.more


# SmolLM2-135M on an AMD EPYC, one and two threads, 100 rows (docs/drafting.md). By dialect and
# precision; smaller models have cheaper steps of several tokens, so that this errs towards caution.
MEASURED: Dict[Tuple[str, str], Cost] = {
    ("ort", "fp32"): Cost(2.1, 0.135, 16),
    ("ort", "n8"): Cost(1.15, 0.14, 16),
    ("ort", "n4"): Cost(1.3, 0.26, 16),
    ("portable", "fp32"): Cost(1.16, 0.07, 16),
    ("portable", "int8-dynamic"): Cost(1.4, 0.13, 16),
}
OTHERS = Cost(1.4, 0.25, 16)
# Nobody has measured it yet. Eight is what the engines of a bundle are built to answer at once.
TENSORRT = Cost(1.2, 0.1, 8)

GAIN = 1.1  # less than this is left: guesses of chances are rough
LEAST = 0.02  # a token that is less likely than this ends a draft


def cost_of(backend: Backend) -> Cost:
    if backend.name == "trt":
        return TENSORRT
    dialect = "portable" if "drop" in backend.abilities else "ort"
    return MEASURED.get((dialect, backend.precision), OTHERS)


def best_length(chances: List[float], cost: Cost, unit: float) -> int:
    """The number of tokens to draft that gives the most tokens for the time; 0: none pays."""
    return best_draft(chances, cost, unit)[0]


def best_draft(chances: List[float], cost: Cost, unit: float) -> Tuple[int, float]:
    """That number, and tokens for the time of one; (0, GAIN) where none pays."""
    best, most_for_time = 0, GAIN
    expected, so_far = 1.0, 1.0
    for count, chance in enumerate(chances, 1):
        so_far *= chance
        if so_far < LEAST:
            break
        expected += so_far
        for_time = expected / (cost.of(count + 1) + count * unit)
        if for_time > most_for_time:
            best, most_for_time = count, for_time
    return best, most_for_time


class Either(Drafter):
    """Of several drafters the one that gives the most tokens for the time."""

    def __init__(self, drafters: Sequence[Drafter], cost: Cost) -> None:
        self._drafters, self._cost = drafters, cost
        self._chosen = drafters[0]

    def begin(self, ids: Sequence[int]) -> None:
        for drafter in self._drafters:
            drafter.begin(ids)

    def extend(self, token: int) -> None:
        for drafter in self._drafters:
            drafter.extend(token)

    def chances(self, most: int) -> List[float]:
        """Those of the one that is chosen, whose `unit` is this one's until the next call."""
        best: List[float] = []
        most_for_time = GAIN
        for drafter in self._drafters:
            found = drafter.chances(most)
            count, for_time = best_draft(found, self._cost, drafter.unit)
            if count and (not best or for_time > most_for_time):
                best, most_for_time, self._chosen = found, for_time, drafter
        self.unit = self._chosen.unit
        return best

    def draft(self, count: int) -> List[int]:
        return self._chosen.draft(count)
