"""What the self-test leaves: its figures with their conditions, and a status that is no praise."""

import json

import selftest

from tests import bundles


def test_a_run_keeps_the_figures_of_all_three_cases_with_the_conditions(tmp_path):
    path = str(tmp_path / "selftest.json")
    asked = ["--runs", "1", "--rounds", "1", "--slower", "2", "--threads", "1", "-o", path]
    assert (
        selftest.main([bundles.ROPE, *asked, "--new-tokens", "64"]) == 1
    )  # one round compares nothing
    with open(path) as file:
        made = json.load(file)
    (run,) = made["runs"]
    assert run["same"]["verdict"] == run["slower"]["verdict"] == "not compared"
    for figures in (run["token_s"], run["again_token_s"], run["slower_token_s"]):
        assert len(figures) == 1 and min(figures) > 0
    assert run["slower_token_s"][0] > 1.5 * run["token_s"][0]
    assert run["side_by_side"]["blocks"] == 18 and len(run["load_average"]) == 3
    assert made["settings"]["rounds"] == 1 and made["threads"] == 1
    assert made["machine"]["packages"]["onnxruntime"]


def test_a_bundle_that_is_none_is_an_error(tmp_path, capsys):
    assert selftest.main([str(tmp_path)]) == 2
    assert "has no manifest.json" in capsys.readouterr().err
