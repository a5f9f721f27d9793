"""The verdict on figures that were really measured, with all the noise of that machine."""

import json
import os

import pytest

from edgeformer.bench import statistics as st
from tests.bundles import FOLDER

# What `python benchmarks/selftest.py` left: ten runs, each of one bundle twice and slowed by 5 %.
REPORT = os.path.join(FOLDER, "..", "..", "benchmarks", "selftest.json")


def runs():
    with open(REPORT, encoding="ascii") as file:
        return json.load(file)["runs"]


def test_there_are_ten_runs_of_real_noise():
    assert len(runs()) == 10
    for run in runs():
        figures = run["token_s"]
        assert len(set(figures)) > 0.9 * len(figures) >= 0.9 * st.rounds_needed(st.CONFIDENCE)
        assert max(figures) > 1.01 * min(figures)


@pytest.mark.parametrize("number", range(10))
def test_the_same_thing_twice_is_never_a_difference(number):
    run = runs()[number]
    found = st.compare(run["token_s"], run["again_token_s"])
    assert found.verdict == "no difference"
    assert found.low <= 1 <= found.high


@pytest.mark.parametrize("number", range(10))
def test_a_slowdown_of_5_percent_is_always_found(number):
    run = runs()[number]
    found = st.compare(run["token_s"], run["slower_token_s"])
    assert found.verdict == "a faster"
    assert found.low > 1
    assert st.compare(run["slower_token_s"], run["token_s"]).verdict == "b faster"
