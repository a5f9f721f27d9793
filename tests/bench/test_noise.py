"""The verdict on figures that were really measured, with all the noise of that machine."""

import json
import os

import pytest

from edgeformer.bench import statistics as st
from tests.bundles import FOLDER

# What `python benchmarks/selftest.py` left: ten runs, each of one bundle twice and slowed by 5 %.
BENCHMARKS = os.path.join(FOLDER, "..", "..", "benchmarks")
ALTERNATING = os.path.join(
    BENCHMARKS, "selftest.json"
)  # rounds one after the other, a busy machine
QUIET = os.path.join(BENCHMARKS, "selftest-quiet.json")  # the same with nothing beside them
SIDE_BY_SIDE = os.path.join(BENCHMARKS, "results", "amd-epyc-2cpu", "selftest-side-by-side.json")

EACH_RUN = [(path, number) for path in (ALTERNATING, SIDE_BY_SIDE) for number in range(10)]


def report(path):
    with open(path, encoding="ascii") as file:
        return json.load(file)


@pytest.mark.parametrize("path", [ALTERNATING, QUIET, SIDE_BY_SIDE])
def test_there_are_ten_runs_of_real_noise(path):
    runs = report(path)["runs"]
    assert len(runs) == 10
    for run in runs:
        figures = run["token_s"]
        assert len(set(figures)) > 0.9 * len(figures) >= 0.9 * st.rounds_needed(st.CONFIDENCE)
        assert max(figures) > 1.01 * min(figures)


def test_those_side_by_side_are_thirty_rounds_of_one_thread_in_blocks():
    made = report(SIDE_BY_SIDE)
    assert (made["slower"], made["threads"], made["settings"]["rounds"]) == (0.05, 1, 30)
    assert all(len(run["token_s"]) == 30 for run in made["runs"])
    assert all(run["side_by_side"]["blocks"] == 18 for run in made["runs"])


@pytest.mark.parametrize("path, number", [*EACH_RUN, *((QUIET, number) for number in range(10))])
def test_the_same_thing_twice_is_never_a_difference(path, number):
    run = report(path)["runs"][number]
    found = st.compare(run["token_s"], run["again_token_s"])
    assert found.verdict == "no difference"
    assert found.low <= 1 <= found.high


@pytest.mark.parametrize("path, number", EACH_RUN)
def test_a_slowdown_of_5_percent_is_always_found(path, number):
    run = report(path)["runs"][number]
    found = st.compare(run["token_s"], run["slower_token_s"])
    assert found.verdict == "a faster"
    assert found.low > 1
    assert st.compare(run["slower_token_s"], run["token_s"]).verdict == "b faster"


@pytest.mark.parametrize("number", range(10))
def test_side_by_side_the_size_of_the_slowdown_is_right_too(number):
    run = report(SIDE_BY_SIDE)["runs"][number]
    found = st.compare(run["token_s"], run["slower_token_s"])
    assert found.low < 1.05 < found.high
