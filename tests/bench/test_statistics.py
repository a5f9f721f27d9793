"""Intervals against brute force and published tables; verdicts on figures that are known."""

import itertools
import math
import random

import pytest

from edgeformer.bench import statistics as st


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_signed_rank_counts_equal_all_choices_of_signs(n):
    sums = [
        sum(r for r, sign in zip(range(1, n + 1), signs) if sign)
        for signs in itertools.product((0, 1), repeat=n)
    ]
    assert st.signed_rank_counts(n) == [sums.count(k) for k in range(n * (n + 1) // 2 + 1)]


# Critical values of the two-sided signed-rank test: the largest W that is still significant.
# McCornack, Journal of the American Statistical Association 60 (1965), also in Conover's tables.
TABLE = [(6, 0.05, 0), (8, 0.05, 3), (10, 0.05, 8), (10, 0.01, 3), (15, 0.05, 25), (15, 0.01, 15),
         (20, 0.05, 52), (20, 0.01, 37), (25, 0.05, 89), (25, 0.01, 68)]  # fmt: skip


@pytest.mark.parametrize("n, level, critical", TABLE)
def test_interval_cuts_off_what_the_published_tables_say(n, level, critical):
    values = [2.0**k for k in range(n)]  # all means of two differ
    means = sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n))
    found = st.interval(values, 1 - level)
    assert (found.low, found.high) == (means[critical], means[-1 - critical])
    assert 1 - level <= found.confidence < 1


def test_ten_rounds_are_the_fewest_for_the_confidence_that_is_used():
    assert st.rounds_needed(st.CONFIDENCE) == 10
    assert st.interval([1.0] * 9, st.CONFIDENCE) is None
    assert st.interval([1.0] * 10, st.CONFIDENCE).confidence == pytest.approx(1 - 2 / 1024)


def test_an_interval_holds_the_centre_as_often_as_it_says():
    draw = random.Random(3)
    missed = 0
    for _ in range(400):
        found = st.interval([draw.gauss(0.3, 1) for _ in range(12)], 0.9)
        missed += not found.low <= 0.3 <= found.high
    assert 20 <= missed <= 56  # 10 % of 400 is 40, standard deviation 6


def noisy(seed, factor, rounds=12, noise=0.01):
    """Rounds of a and b on a machine whose speed drifts by a half for both."""
    draw = random.Random(seed)
    drift = [1 + 0.5 * math.sin(k) ** 2 for k in range(rounds)]
    a = [d * math.exp(draw.gauss(0, noise)) for d in drift]
    b = [d * factor * math.exp(draw.gauss(0, noise)) for d in drift]
    return a, b


def test_a_drift_that_both_share_hides_no_difference():
    found = st.compare(*noisy(1, 1.05))
    assert found.verdict == "a faster" and found.low < found.ratio < found.high
    assert found.ratio == pytest.approx(1.05, rel=0.02)
    assert st.compare(*reversed(noisy(1, 1.05))).verdict == "b faster"


def test_no_ratio_where_the_noise_is_larger_than_the_difference():
    found = st.compare(*noisy(2, 1.0))
    assert (found.verdict, found.ratio) == ("no difference", None)
    assert found.low < 1 < found.high and "noise is larger" in found.why


def test_one_wild_round_changes_no_verdict():
    a, b = noisy(4, 1.05, rounds=20)
    b[3] *= 0.2
    found = st.compare(a, b)
    assert found.verdict == "a faster"


def test_too_few_rounds_or_a_figure_of_zero_are_not_compared():
    a, b = noisy(5, 2.0)
    assert "9 rounds of both; an interval of 99.8% needs 10" in st.compare(a[:9], b).why
    assert "clock" in st.compare([0.0] * 12, b).why


def test_quantiles_lie_between_the_nearest_values():
    assert st.quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert st.quantile([0.0, 10.0], 0.95) == 9.5
    assert st.quantile([7.0], 0.99) == 7.0
    assert st.spread([1.0, 2.0, 3.0]) == 0.5
