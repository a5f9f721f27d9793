"""Several answers of one prompt: they share its rows, and each comes again by its own seed."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError
from tests import bundles
from tests.test_cli import SLOW, environment, run

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE] + ([bundles.FUSED] if FUSED_RUNS else [])
ASKED = {"temperature": 1.1, "max_new_tokens": 12}
PROMPT = "the cat and the other " * 2


@pytest.fixture(scope="module", params=PATHS, ids=os.path.basename)
def model(request):
    with edgeformer.load(request.param, threads=1) as loaded:
        yield loaded


@pytest.fixture
def steps(model, monkeypatch):
    """How many tokens each step of the backend had."""
    found, step = [], model.backend.step
    monkeypatch.setattr(model.backend, "step", lambda *a: found.append(len(a[0])) or step(*a))
    return found


def test_each_answer_is_that_of_its_own_seed_alone(model):
    found = model.answers(PROMPT, n=4, seed=2**64 - 2, **ASKED)
    assert [each.stats.seed for each in found] == [2**64 - 2, 2**64 - 1, 0, 1]
    assert len({each.tokens for each in found}) == 4
    for each in found:
        alone = model.generate(PROMPT, seed=each.stats.seed, reuse=False, **ASKED)
        assert (alone.tokens, alone.text) == (each.tokens, each.text)


def test_a_new_seed_is_told_too(model):
    found = model.answers(PROMPT, n=2, **ASKED)
    first, second = (each.stats.seed for each in found)
    assert second == first + 1
    assert model.generate(PROMPT, seed=second, **ASKED).tokens == found[1].tokens


def test_the_prompt_is_computed_once(model, steps):
    model.backend.truncate(0)
    found = model.answers(PROMPT, n=5, seed=3, **ASKED)
    prompt = len(model.prompt_ids(PROMPT))
    assert prompt > 8
    assert sum(steps) == prompt + sum(len(each.tokens) - 1 for each in found)
    assert [each.stats.reused_tokens for each in found] == [0] + [prompt] * 4


def test_a_stream_in_between_costs_the_prompt_again_and_changes_nothing(model, steps):
    wanted = [each.tokens for each in model.answers(PROMPT, n=3, seed=3, **ASKED)]
    found = []
    for stream in model.streams(PROMPT, n=3, seed=3, **ASKED):
        found.append(tuple(step.token for step in stream))
        model.generate("here and there", max_new_tokens=2)
        del steps[:]
    assert found == wanted


def test_a_stream_that_was_left_is_closed_where_the_next_begins(model):
    wanted = [each.tokens for each in model.answers(PROMPT, n=2, seed=3, **ASKED)]
    first, second = None, None
    for stream in model.streams(PROMPT, n=2, seed=3, **ASKED):
        if first is None:
            first = stream
            next(first)
        else:
            second = tuple(step.token for step in stream)
    assert (first.finish_reason, list(first)) == ("cancelled", [])
    assert second == wanted[1]


def test_rules_and_chosen_rows_go_with_every_answer(model):
    found = model.answers(
        PROMPT, n=3, seed=1, temperature=2.0, stop="e", logprobs=1, max_new_tokens=20, reuse="all"
    )
    for each in found:
        assert "e" not in each.text
        assert len(each.logprobs) == len(each.tokens)


@pytest.mark.parametrize(
    "asked, named",
    [
        ({"n": 0, "temperature": 1.0}, "from 1 to"),
        ({"n": True, "temperature": 1.0}, "from 1 to"),
        ({"n": 2.0, "temperature": 1.0}, "from 1 to"),
        ({"n": 2}, "at temperature 0 all 2 answers are the same"),
        ({"n": 2, "temperature": 1.0, "top_kk": 1}, "top_kk"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(model, asked, named):
    with pytest.raises(EdgeformerError) as caught:
        model.streams(PROMPT, **asked)
    assert named in str(caught.value)


def test_counts_may_be_numpys(model):
    asked = {"seed": np.uint64(3), "max_new_tokens": np.int32(3), "temperature": 1.1}
    found = model.answers(PROMPT, n=np.int64(2), **asked)
    plain = model.answers(PROMPT, n=2, seed=3, max_new_tokens=3, temperature=1.1)
    assert [each.tokens for each in found] == [each.tokens for each in plain]
    best = model.beams(PROMPT, beams=np.int64(3), n=np.int8(2), max_new_tokens=np.int16(3))
    wanted = model.beams(PROMPT, beams=3, n=2, max_new_tokens=3)
    assert [each.tokens for each in best] == [each.tokens for each in wanted]


def test_one_answer_may_be_greedy(model):
    (found,) = model.answers(PROMPT, n=1, max_new_tokens=5)
    assert found.tokens == model.generate(PROMPT, max_new_tokens=5).tokens


def test_the_command_gives_them_with_a_line_between_and_as_json():
    words = ["generate", bundles.ROPE, "the cat", "-n", "3", "--temperature", "1", "--seed", "4"]
    words += ["--max-new-tokens", "6"]
    with edgeformer.load(bundles.ROPE) as model:
        wanted = model.answers("the cat", n=3, temperature=1.0, seed=4, max_new_tokens=6)
    status, out, err = run(*words)
    assert status == 0
    assert out.decode("utf-8") == "\n---\n".join(each.text for each in wanted) + "\n"
    assert [b"seed %d" % seed in err for seed in (4, 5, 6)] == [True] * 3
    document = json.loads(run(*words, "--json")[1].decode("ascii"))
    assert [each["tokens"] for each in document["answers"]] == [list(w.tokens) for w in wanted]
    assert [each["stats"]["seed"] for each in document["answers"]] == [4, 5, 6]
    assert run("generate", bundles.ROPE, "the cat", "-n", "2")[0] == 2


def test_answers_that_outgrow_the_cache_are_those_of_their_seeds_too():
    """A shift moves the rows of the prompt, which the next answer must not take for them."""
    asked = {"temperature": 1.1, "max_new_tokens": 120, "overflow": "shift"}
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        model._eos_ids = frozenset()
        found = model.answers(PROMPT, n=3, seed=1, **asked)
        assert [len(each.tokens) for each in found] == [120] * 3
        for each in found:
            alone = model.generate(PROMPT, seed=each.stats.seed, reuse=False, **asked)
            assert alone.tokens == each.tokens


def test_drafts_change_no_answer_of_several():
    asked = {"temperature": 0.3, "max_new_tokens": 40, "draft": "lookup"}
    prompt = [7, 8, 9, 10, 11] * 5
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        found = model.answers(prompt, n=3, seed=1, **asked)
        assert sum(each.stats.drafted for each in found) > 0
        for each in found:
            alone = model.generate(prompt, seed=each.stats.seed, reuse=False, **asked)
            assert alone.tokens == each.tokens


def test_ctrl_c_ends_all_answers_and_keeps_what_came():
    words = ["generate", bundles.ROPE, "5 6", "--ids", "-n", "3", "--temperature", "1"]
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW % 0.05, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    first = child.stdout.read(1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, b"Traceback" in err, b"---" in out) == (130, False, False)
    assert 0 < len((first + out).split()) < 80
    assert err.count(b"cancelled: 2 prompt") == 1
