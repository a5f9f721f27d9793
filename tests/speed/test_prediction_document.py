"""What docs/prediction.md says of this CPU is what the committed documents hold."""

import json
import os
from statistics import median

import pytest

from tests.bundles import FOLDER

ROOT = os.path.dirname(os.path.dirname(FOLDER))
NAMES = ("epyc-quiet-small", "epyc-quiet-large", "epyc-fp32", "epyc-5m", "epyc-load-4")
LIMIT = 0.25


def document(name):
    path = os.path.join(ROOT, "benchmarks", "predicted", name + ".json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def row(case):
    """Worked out from the rounds, not taken from the summary."""
    ratios = sorted(r["predicted_s"] / r["measured_s"] for r in case["rounds"])
    prompts = [r["prompt_predicted_s"] / r["prompt_measured_s"] for r in case["rounds"]]
    milliseconds = (
        1e3 * median(r[key] for r in case["rounds"]) for key in ("predicted_s", "measured_s")
    )
    cells = [case["name"], case["precision"], str(len(ratios))]
    cells += ["%.3g" % value for value in milliseconds]
    cells += ["%.2f" % median(ratios), "%.2f to %.2f" % (ratios[0], ratios[-1])]
    cells += ["%.2f" % median(prompts)]
    return "| " + " | ".join(cells) + " |"


@pytest.mark.parametrize("name", NAMES)
def test_each_row_of_the_table_is_a_case_of_the_document(name):
    with open(os.path.join(ROOT, "docs", "prediction.md"), encoding="utf-8") as file:
        text = file.read()
    cases = document(name)["cases"]
    assert cases
    for case in cases:
        assert row(case) in text


@pytest.mark.parametrize("name", NAMES)
def test_a_case_is_within_the_limit_only_if_its_rounds_say_so(name):
    found = document(name)
    for case in found["cases"]:
        ratio = median(r["predicted_s"] / r["measured_s"] for r in case["rounds"])
        assert case["within_limit"] == (abs(ratio - 1) <= LIMIT)
    assert found["all_within_limit"] == all(case["within_limit"] for case in found["cases"])
    assert found["settings"]["limit"] == LIMIT
    assert found["machine"]["processor"]
    assert found["commit"]
