"""A document says what its own rounds give, or it is refused with both numbers."""

import glob
import json
import os
import re

import pytest

from edgeformer.bench import document as documents
from edgeformer.bench import recompute
from edgeformer.errors import EdgeformerError
from tests.bench.documents import document, settled, turn

RESULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../benchmarks/results")


def long_document():
    """Ten rounds of each, so that there is a verdict with numbers."""
    made = document()
    made["settings"]["rounds"] = 10
    for case, step in zip(made["cases"], (0.002, 0.001)):
        case["rounds"] = [turn(index, step * (1 + index / 500)) for index in range(10)]
    return settled(made)


def refusal(made, folder):
    path = folder / "edited.json"
    path.write_text(json.dumps(made))
    with pytest.raises(EdgeformerError) as caught:
        documents.read(str(path))
    assert caught.value.exit_code == 2
    return str(caught.value)


def places(value, path=()):
    """Every number below, by the keys that lead to it."""
    if isinstance(value, dict):
        return [found for key in value for found in places(value[key], (*path, key))]
    return [path] if isinstance(value, (int, float)) else []


def at(value, path):
    for key in path:
        value = value[key]
    return value


def test_every_number_of_a_summary_is_held_against_the_rounds():
    whole = json.dumps(long_document())
    found = places(json.loads(whole)["cases"][1]["summary"])
    assert len(found) > 30
    for path in found:
        made = json.loads(whole)
        at(made["cases"][1]["summary"], path[:-1])[path[-1]] += 1
        told = list(recompute.findings(made))
        assert len(told) == 1 and ".".join(path) + " is " in told[0], path


def test_every_part_of_a_verdict_is_held_against_the_rounds():
    whole = json.dumps(long_document())
    assert json.loads(whole)["comparisons"][0]["verdict"] == "b faster"
    for key, value in (
        ("ratio", 0.4),
        ("ratio", None),
        ("low", 0.4),
        ("high", 0.9),
        ("confidence", 0.99),
        ("verdict", "no difference"),
        ("verdict", "a faster"),
    ):
        made = json.loads(whole)
        made["comparisons"][0][key] = value
        (told,) = recompute.findings(made)
        assert told.startswith("token_s of 'tiny-rope n8 ort' against 'tiny-rope fp32 ort': " + key)


def test_both_numbers_are_told_with_their_place_and_what_to_do(tmp_path):
    made = long_document()
    made["cases"][1]["summary"]["tokens_per_s"]["median"] = 9999.5
    told = refusal(made, tmp_path)
    assert told.startswith("edited.json: 'tiny-rope n8 ort': tokens_per_s.median is 9999.5, and ")
    wanted = long_document()["cases"][1]["summary"]["tokens_per_s"]["median"]
    assert "its rounds give %r." % wanted in told
    assert "measure again" in told


def test_a_round_that_was_edited_gives_another_summary(tmp_path):
    made = long_document()
    made["cases"][0]["rounds"][3]["token_s"] = [1e-6] * 3
    told = refusal(made, tmp_path)
    assert "'tiny-rope fp32 ort': token_s.low is 0.002, and its rounds give 1e-06" in told


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda d: d["cases"][0].update(summary=None), "the summary is null, and its"),
        (lambda d: d["cases"][0].update(rounds=[], summary=None), "has 0 of 10 rounds"),
        (lambda d: d["cases"][0].update(error="killed"), "and 'tiny-rope fp32 ort' died"),
        (lambda d: d["cases"][0]["rounds"].pop(), "has 9 of 10 rounds"),
        (lambda d: d["cases"][0]["parity"].update(passed=False), "ratio is 0.5"),
        (
            lambda d: d["cases"][1]["parity"].update(what="3 of 64 golden tokens"),
            "passed with 3 of",
        ),
        (lambda d: d["comparisons"][0].update(a="nobody"), "it compares 'nobody', a case"),
        (lambda d: d["settings"].update(new_tokens=64), "3 times of tokens, 3 of them outside"),
        (lambda d: d["settings"].update(prompt_tokens=[64]), "first_token_s of 16, and settings.p"),
        (lambda d: d["settings"].update(rows=[]), "rows_s of 64, and settings.rows is []"),
        (lambda d: d["cases"][0]["rounds"][0]["outside_s"].pop(), "2 of them outside the step"),
        (
            lambda d: d["settings"].update(
                side_by_side={"blocks": 2, "block_tokens": 5, "dropped_tokens": 2}
            ),
            "settings give 6",
        ),
        (lambda d: d["comparisons"].append(d["comparisons"][0]), "twice in 'token_s'"),
        (lambda d: d["comparisons"][0].update(figure="speed"), "'speed', which is no figure"),
        (lambda d: d["comparisons"][0].update(figure="token_s/1"), "which is no figure"),
        (lambda d: d["cases"][1].update(name=d["cases"][0]["name"]), "two cases are called"),
        (lambda d: d["cases"][0]["rounds"][0].update(token_s=[]), "something took no time"),
        (lambda d: d["cases"][0]["rounds"][0].update(token_s=[0.0]), "something took no time"),
        (lambda d: d["cases"][0]["rounds"][0]["rows_s"].update(x=[1.0]), "that are no numbers"),
    ],
)
def test_what_contradicts_itself_is_refused_and_no_traceback(change, told, tmp_path):
    made = long_document()
    change(made)
    assert told in refusal(made, tmp_path)


def test_what_was_not_compared_says_why_as_its_rounds_do(tmp_path):
    made = document()
    made["comparisons"][0]["why"] = "no reason"
    assert "why is 'no reason', and its rounds give '2 rounds of both" in refusal(made, tmp_path)
    made["comparisons"][0]["why"] = document()["comparisons"][0]["why"] + "; KL 0.1"
    recompute.hold(made, "a peer's, which says what a speed costs behind it")


def test_a_run_that_was_cut_short_is_read(tmp_path):
    made = long_document()
    made["complete"] = False
    made["cases"][1].update(rounds=[], error="killed")
    recompute.hold(settled(made), "the document")


def test_a_run_side_by_side_whose_case_died_had_other_numbers_of_blocks():
    made = long_document()
    made["settings"]["side_by_side"] = {"blocks": 18, "block_tokens": 2, "dropped_tokens": 1}
    assert "settings give 18" in next(recompute.findings(made))
    made.update(complete=False)
    recompute.hold(made, "the document")
    made["settings"]["side_by_side"].update(block_tokens=3)
    assert "3 times of tokens, 3 of them outside the step; settings give 2" in next(
        recompute.findings(made)
    )


def test_the_rounding_of_another_machines_sum_is_no_difference():
    made = long_document()
    figure = made["cases"][0]["summary"]["tokens_per_s"]
    figure["median"] *= 1 + 1e-13
    assert not list(recompute.findings(made))
    figure["median"] *= 1 + 1e-6
    assert list(recompute.findings(made))


def test_every_committed_result_is_what_its_rounds_give():
    found = glob.glob(os.path.join(RESULTS, "*", "*.json"))
    # a board's report, a self test and pairs of drafted streams are documents of their own
    held = [
        p for p in found if not re.search(r"/boards/[^/]*$|/(selftest|drafting|classes)-[^/]*$", p)
    ]
    assert len(held) >= 4
    for path in held:
        documents.read(path)
