"""Checkpoints damaged at random, by seed: see fuzz.py, which also runs for as long as one likes."""

from pathlib import Path

import pytest

from tests.nn.sources.fuzz import MOST_GROWTH, make_checkpoints, run, use
from tests.peak import peak_bytes

# Seeds that once ended in anything else than a model or an error in words; of 10 minutes, none.
FOUND: tuple[int, ...] = ()


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    make_checkpoints(folder)
    return folder


def test_without_damage_they_load(checkpoints, tmp_path):
    for kind in ("hf", "gguf"):
        use(checkpoints / kind, tmp_path)


@pytest.mark.parametrize("first", [0, 100, 200])
def test_a_damaged_checkpoint_loads_or_is_refused_in_words(first, checkpoints, tmp_path):
    before = peak_bytes()
    seeds = [*FOUND, *range(first, first + 100)]
    wrong = {seed: run(seed, checkpoints, Path(tmp_path)) for seed in seeds}
    assert not {seed: what for seed, what in wrong.items() if what is not None}
    assert peak_bytes() - before < MOST_GROWTH


def test_a_crash_would_be_found(checkpoints, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.nn.sources.fuzz.describe", lambda source: {}["no such key"])
    found = [run(seed, checkpoints, Path(tmp_path)) for seed in range(20)]
    assert any(what and "KeyError" in what for what in found)
