"""Engines in fresh processes that take turns: what they are asked, and what becomes of it."""

import json
import shutil

import pytest

from benchmarks.peers.series import parity
from tests.benchmarks.peers.conftest import SETTINGS, save_llama

pytestmark = pytest.mark.slow  # every engine's process imports its engine


def test_two_engines_give_the_same_tokens_and_distributions(done):
    assert [case.error for case in done.cases] == [None, None]
    assert done.complete
    for case in done.cases:
        assert case.quality["kl"] < 1e-6
        assert case.quality["top1"] > 0.99
        assert case.tokens == done.reference["tokens"]
        assert parity(case, done.reference)["passed"] is True
    assert len(set(done.reference["tokens"]["8"])) >= 12


def test_every_round_is_whole_and_the_order_turns_round(done):
    ours, theirs = done.cases
    assert [turn["order"] for turn in ours.rounds] == [0, 3]
    assert [turn["order"] for turn in theirs.rounds] == [1, 2]
    for turn in ours.rounds + theirs.rounds:
        assert len(turn["token_s"]) == SETTINGS.new_tokens - 1
        assert len(turn["rows_s"]["150"]) == SETTINGS.new_tokens - 1
        assert {key: len(found) for key, found in turn["first_token_s"].items()} == {
            "8": 2,
            "150": 2,
        }
        assert 0 < turn["loaded_rss_bytes"] <= turn["peak_rss_bytes"]
        assert turn["bandwidth_bytes_per_s"] == 2e10
        assert turn["load_s"] > 0
    assert set(theirs.versions) == {"transformers", "torch"}


def test_a_form_is_made_once(done, forms):
    place = forms.folder / f"bundle-fp32-{SETTINGS.capacity}" / "manifest.json"
    before = place.stat().st_mtime_ns
    forms.make("bundle-fp32")
    assert place.stat().st_mtime_ns == before


def test_another_model_fails_parity(done, new_series, forms, tmp_path):
    other = save_llama(tmp_path / "other", seed=6)
    strange = type(forms)(other, SETTINGS.capacity, tmp_path, forms.python).make("bundle-fp32")
    series = new_series(f"edgeformer:fp32@{strange}")
    series.run(lambda: None)
    found = parity(series.cases[0], series.reference)
    assert found["passed"] is False
    assert found["what"].startswith("0 of 24 greedy tokens")


def test_an_engine_that_dies_is_named_and_the_others_go_on(done, new_series, forms, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(forms.make("bundle-fp32"), damaged)
    (damaged / "manifest.json").write_text("{")
    series = new_series(f"edgeformer:fp32@{damaged},edgeformer:fp32")
    series.run(lambda: None)
    dead, alive = series.cases
    assert "manifest.json" in dead.error
    assert not dead.rounds
    assert len(alive.rounds) == SETTINGS.rounds
    assert parity(dead, series.reference)["passed"] is None


def test_hf_folder_keeps_the_rope_base_where_transformers_4_reads_it(forms):
    config = json.loads((forms.make("hf") / "config.json").read_text())
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"]
