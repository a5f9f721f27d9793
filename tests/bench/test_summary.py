"""Figures from rounds whose figures are known, and when two cases may be compared."""

import pytest

from edgeformer.bench import document as documents
from edgeformer.bench.measure import thinned
from edgeformer.bench.summary import comparisons, summary
from edgeformer.bench.table import text_of
from tests.bench.documents import case, document, turn


def rounds(*steps):
    return [turn(order, step) for order, step in enumerate(steps)]


def test_tokens_per_s_are_intervals_through_their_seconds_and_not_through_a_median():
    made = rounds(0.001)
    made[0]["token_s"] = [0.001, 0.001, 0.008]
    found = summary(made)
    assert found["tokens_per_s"]["median"] == pytest.approx(300)
    assert found["token_s"]["median"] == 0.001


def test_a_figure_is_the_median_of_rounds_with_the_lowest_and_the_highest():
    found = summary(rounds(0.003, 0.001, 0.002))
    assert found["token_s"]["median"] == 0.002
    assert (found["token_s"]["low"], found["token_s"]["high"]) == (0.001, 0.003)
    assert found["token_s"]["n"] == 3
    assert found["noise"] == pytest.approx(0.5)


def test_the_tail_is_that_of_all_tokens_of_all_rounds():
    made = rounds(*[0.001] * 100)
    made[50]["token_s"] = [0.001, 0.001, 0.5]  # one of 300
    found = summary(made)["token_s"]
    assert found["p95"] == 0.001 and 0.001 <= found["p99"] < 0.5
    made[51]["token_s"] = made[52]["token_s"] = made[53]["token_s"] = [0.5] * 3
    assert summary(made)["token_s"]["p99"] == 0.5


def test_prefill_is_prompt_tokens_a_second_up_to_the_first_new_token():
    found = summary(rounds(0.001))
    assert found["prefill_tokens_per_s"]["16"]["median"] == pytest.approx(16 / 0.0205)


def test_what_no_round_measured_is_null():
    found = summary(rounds(0.001))
    assert found["energy_j_per_token"] is None
    assert found["noise"] is None  # one round has no spread
    assert summary([]) is None


def pair(factor, count=12):
    """Two cases of a document, the second slower by this factor."""
    steps = [0.001 * (1 + 0.01 * (k % 3)) for k in range(count)]
    a, b = case("a"), case("b")
    a["rounds"], b["rounds"] = rounds(*steps), rounds(*[factor * step for step in steps])
    return a, b


def token_verdict(a, b):
    return next(c for c in comparisons([a, b], 0.998) if c["figure"] == "token_s")


def test_a_difference_is_told_as_a_ratio_of_times_with_its_interval():
    found = token_verdict(*pair(1.05))
    assert found["verdict"] == "a faster"
    assert found["ratio"] == pytest.approx(1.05)
    assert found["low"] <= found["ratio"] <= found["high"]
    assert (found["a"], found["b"]) == ("a", "b")


@pytest.mark.parametrize("passed", [False, None])
def test_no_ratio_where_parity_is_not_proved(passed):
    a, b = pair(2.0)
    b["parity"] = {"passed": passed, "what": "3 of 64 golden tokens"}
    found = token_verdict(a, b)
    assert (found["verdict"], found["ratio"], found["low"]) == ("not compared", None, None)
    assert found["why"] == "parity of b: 3 of 64 golden tokens"


def test_no_ratio_with_a_case_that_died():
    a, b = pair(2.0)
    a["error"] = "round 11: the process was ended by SIGKILL (9)"
    assert token_verdict(a, b)["why"] == "a died"


def test_every_figure_that_both_have_is_compared():
    a, b = pair(1.05)
    for one in b["rounds"]:
        one["rows_s"] = {"1024": [0.1]}
    names = [found["figure"] for found in comparisons([a, b], 0.998)]
    assert names == ["token_s", "first_token_s/16", "load_s"]


def test_samples_are_thinned_evenly_and_a_short_run_keeps_all():
    samples = [{"t_s": k} for k in range(2500)]
    assert [s["t_s"] for s in thinned(samples, 1000)][:3] == [0, 3, 6]
    assert thinned(samples[:900], 1000) == samples[:900]
    assert thinned([], 1000) == []


def test_the_text_has_a_unit_at_every_figure_and_says_what_tokens_are():
    made = document()
    made["comparisons"] = comparisons(pair(1.05), 0.998)
    made["cases"][1]["error"] = "round 2: the process was ended by SIGKILL (9)"
    text = text_of(made)
    for wanted in (
        "a token, median           2 ms (2 to 2)",
        "tokens/s                  500 tokens/s (500 to 500)",
        "prefill, prompt 16        780 tokens/s",
        "peak memory (RSS)         100 MB",
        "outside the step          20 us",
        "64 of 64 golden tokens",
        "n-1 intervals between n = 4 tokens, decoded greedily behind 16 others",
        "1.050 (1.050 to 1.050, 99.9%): a faster",
        "DIED: tiny-rope n8 ort: round 2",
    ):
        assert wanted in text, text
    assert "energy" not in text and "clocks" not in text  # nobody measured them
    assert max(map(len, text.splitlines())) <= 100


def test_the_text_tells_between_which_clocks_a_case_ran():
    made = document()
    for one, hz in zip(made["cases"][0]["rounds"], (1479000000, 921600000)):
        one.update(cpu_hz=hz, gpu_hz=None, emc_hz=1600000000)
    (line,) = [line for line in text_of(made).splitlines() if line.startswith("clocks")]
    assert "CPU 922 to 1479 MHz, memory 1600 MHz" in line
    documents.check(made)


def test_the_text_of_a_run_that_measured_nothing_is_a_text():
    made = document()
    made["complete"] = False
    for one in made["cases"]:
        one.update(rounds=[], summary=None)
        one["parity"] = {"passed": None, "what": "no round ended"}
    documents.check(made)
    assert "NOT COMPLETE" in text_of(made)
