"""A round's process that ends in other ways than with figures."""

from edgeformer.bench import turn
from tests import bundles


def job(**changes):
    fixed = {"path": bundles.ROPE, "backend": "ort", "threads": 1, "engines": None, "seed": 0}
    lengths = {"prompt_tokens": [4], "new_tokens": 4, "rows": [], "golden": False, "busy": 0.0}
    return dict(dict(fixed, **lengths), **changes)


def test_a_child_that_says_nothing_for_long_is_ended_and_its_phase_named(monkeypatch):
    monkeypatch.setattr(turn, "SILENCE_S", 0.5)
    # so much slower that each step takes seconds
    found = turn.take_turn(job(busy=2e4), lambda phase: None)
    assert found.done is None and not found.refused
    assert found.error.startswith("the process said nothing for 0 s")
    assert "while" in found.error or "before it began" in found.error


def test_a_child_that_goes_on_is_left_alone(monkeypatch):
    monkeypatch.setattr(turn, "SILENCE_S", 60.0)
    found = turn.take_turn(job(), lambda phase: None)
    assert found.error is None
    assert len(found.done["round"]["token_s"]) == 3
