"""Each rung of the ladder in docs/training.md."""

import re

import pytest

from edgeformer.nn import ladder


def test_forward_gives_a_score_for_every_next_character(capsys):
    assert ladder.main(["forward"]) == 0
    out = capsys.readouterr().out
    vocab = len(set(ladder.TOY) - {"\n"})
    assert f"token ids [8, 32] -> logits [8, 32, {vocab}]" in out


def test_a_random_model_is_about_as_good_as_guessing_and_has_a_gradient(capsys):
    assert ladder.main(["loss"]) == 0
    numbers = [float(n) for n in re.findall(r"\d+\.\d+", capsys.readouterr().out)]
    loss, guess, norm = numbers
    assert loss == pytest.approx(guess, rel=0.1)
    assert norm > 0.1


def test_one_step_lowers_the_loss(capsys):
    assert ladder.main(["step"]) == 0
    before, after = re.search(r"loss (\S+) -> (\S+) after", capsys.readouterr().out).groups()
    assert float(after) < float(before)


def test_the_toy_text_is_learned_by_heart(capsys):
    assert ladder.main(["overfit"]) == 0
    last = re.findall(r"step (\d+): loss (\S+)", capsys.readouterr().out)[-1]
    assert float(last[1]) < 0.05


def test_a_model_that_cannot_learn_fails_the_check(capsys, monkeypatch):
    monkeypatch.setattr(ladder, "MOST_STEPS", 3)
    assert ladder.main(["overfit"]) == 1
    assert "after 3 steps; the goal is 0.05" in capsys.readouterr().err


def test_an_unknown_preset_is_named(capsys):
    assert ladder.main(["forward", "--preset", "nano-huge"]) == 2
    assert "no preset 'nano-huge'" in capsys.readouterr().err


def test_every_toy_line_is_told_apart_by_its_first_letter():
    lines = ladder.TOY.split("\n")
    assert len({line[0] for line in lines}) == len(lines) == 8
    assert all(len(line) >= 33 for line in lines)
