"""Is one case faster than another? Paired rounds, no assumption about how noise is distributed.

The pairs are the logs of the ratios of two cases' figures in the same round. Their centre is the
Hodges-Lehmann estimate (the median of all means of two pairs), its interval that of the exact
Wilcoxon signed-rank test turned round: no normal distribution, no outlier that moves it far.
"""

import math
from functools import lru_cache
from typing import List, NamedTuple, Optional, Sequence

CONFIDENCE = 0.998  # ten comparisons of the same thing are all right in 98 of 100 runs
# What a round gives to a comparison: the first decile of its times. Other programs only ever add
# time, so the low end repeats where the median does not: with three programs for each CPU of a
# virtual machine, pairs of rounds differed by 13 % in the median and by 4 % here (standard
# deviations, 30 rounds). See Chen and Revels, Robust benchmarking in noisy environments (2016).
FLOOR = 0.1


class Interval(NamedTuple):
    """A centre and what surely holds it, at least at this confidence."""

    centre: float
    low: float
    high: float
    confidence: float


class Verdict(NamedTuple):
    """What may be said of b against a. `ratio`: b's figure for each of a's, only if they differ."""

    ratio: Optional[float]
    low: Optional[float]
    high: Optional[float]
    confidence: Optional[float]
    verdict: str
    why: Optional[str]


def compare(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Verdict:
    """Figures of a and b, lower is better, the same place in both being the same round."""
    pairs = min(len(a), len(b))
    needed = rounds_needed(confidence)
    if pairs < needed:
        said = f"{pairs} rounds of both; an interval of {confidence:.1%} needs {needed}"
        return not_compared(said)
    if min(min(a[:pairs]), min(b[:pairs])) <= 0:
        return not_compared("a figure is 0: the clock is too coarse for it")
    found = interval([math.log(y / x) for x, y in zip(a, b)], confidence)
    assert found is not None
    centre, low, high = (math.exp(value) for value in found[:3])
    if low <= 1 <= high:
        noise = f"the noise is larger than the difference: b / a is {low:.3f} to {high:.3f}"
        return Verdict(None, low, high, found.confidence, "no difference", noise)
    faster = "a faster" if low > 1 else "b faster"
    return Verdict(centre, low, high, found.confidence, faster, None)


def not_compared(why: str) -> Verdict:
    return Verdict(None, None, None, None, "not compared", why)


def interval(values: Sequence[float], confidence: float) -> Optional[Interval]:
    """Of the centre of symmetric values; None where so few cannot give this confidence."""
    n = len(values)
    counts = signed_rank_counts(n)
    total, below, cut = 2**n, 0, 0
    # The most means of pairs that can be cut off at each end: P(W < cut) <= (1 - confidence) / 2.
    while 2 * (below + counts[cut]) <= (1 - confidence) * total * (1 + 1e-12):
        below += counts[cut]
        cut += 1
    if cut == 0:
        return None
    means = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    return Interval(median(means), means[cut - 1], means[-cut], 1 - 2 * below / total)


@lru_cache(maxsize=4)  # all figures of a run have as many pairs; of 500 it takes seconds
def signed_rank_counts(n: int) -> List[int]:
    """In how many of the 2**n choices of signs the positive ranks of 1 to n add up to 0, 1, ..."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return counts


def rounds_needed(confidence: float) -> int:
    """The fewest pairs with an interval: the two most extreme choices of signs must be rare."""
    n = 1
    while 2.0 ** (1 - n) > (1 - confidence) * (1 + 1e-12):
        n += 1
    return n


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """Between the two nearest values, in a straight line."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def spread(values: Sequence[float]) -> float:
    """The interquartile range, as a share of the median; 0 of one value."""
    middle = median(values)
    return (quantile(values, 0.75) - quantile(values, 0.25)) / middle if middle else 0.0
