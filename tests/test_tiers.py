"""docs/tiers.md names what the code has, and claims nothing that the last results deny."""

import json

from tests import tiers
from tests.nn.choices import CHOICES

pytest_plugins = ["pytester"]


def committed():
    with open(tiers.PAGE, encoding="utf-8") as file:
        return file.read()


def test_the_page_has_every_choice_family_and_preset_and_no_other():
    found = tiers.claims(committed())
    assert {kind: list(table) for kind, table in found.items()} == tiers.rows()
    assert list(found["choice"]) == list(CHOICES)
    for table in found.values():
        for name, cells in table.items():
            assert len(cells) == len(tiers.COLUMNS), name
            assert set(cells) <= {tiers.YES, tiers.NOT_YET}, name


def test_the_page_claims_nothing_that_the_last_results_deny():
    """`python -m tests.tiers --check`, which .ci/run does at its end, also wants them complete."""
    known = tiers.tables(tiers.results())
    for kind, table in tiers.claims(committed()).items():
        for name, cells in table.items():
            for column, said, is_so in zip(tiers.COLUMNS, cells, known[kind][name]):
                if said == tiers.YES:
                    assert is_so in (tiers.YES, tiers.NOT_RUN), (kind, name, column, is_so)


def test_a_cell_is_the_sum_of_its_tests():
    found = {
        "lint 10": {"choice mha": {"a": True, "b": True}, "choice mqa": {"a": True, "b": False}}
    }
    assert tiers.cell("lint 10", "choice", "mha", found) == "yes"
    assert tiers.cell("lint 10", "choice", "mqa", found) == "FAILED"
    assert tiers.cell("lint 10", "choice", "gqa", found) == "NOT RUN"
    assert tiers.cell("standin 11", "family", "mha", found) == "not yet"


def test_a_page_that_is_made_twice_is_the_same():
    once = tiers.page(committed(), {column: {} for column in tiers.COLUMNS})
    assert tiers.page(once, {column: {} for column in tiers.COLUMNS}) == once
    assert "| NOT RUN |" in once


def test_outcomes_of_marked_tests_are_kept(pytester, monkeypatch):
    monkeypatch.setattr(tiers, "RESULTS", str(pytester.path / "results"))
    pytester.makeconftest(
        "import pytest\nfrom tests import tiers\n"
        "@pytest.hookimpl(hookwrapper=True)\n"
        "def pytest_runtest_makereport(item):\n"
        "    outcome = yield\n"
        "    tiers.record_report(item, outcome.get_result())\n"
    )
    pytester.makepyfile(
        "import pytest\n"
        "@pytest.fixture\n"
        "def broken(name):\n"
        "    assert name != 'setup'\n"
        "@pytest.mark.proves('choice', 'lint {version}')\n"
        "@pytest.mark.parametrize('name', ['good', 'bad', 'setup'])\n"
        "@pytest.mark.parametrize('version', ['10'])\n"
        "def test_it(name, version, broken):\n"
        "    assert name == 'good'\n"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "ignore")
    kept = json.loads((pytester.path / "results" / "lint-10.json").read_text("utf-8"))
    test = "test_outcomes_of_marked_tests_are_kept.py::test_it"
    assert kept == {
        "choice good": {test: True},
        "choice bad": {test: False},
        "choice setup": {test: False},
    }
