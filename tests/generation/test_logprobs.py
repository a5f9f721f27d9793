"""Log-probabilities of tokens, against sums in Python's own floats and fractions."""

import json
import math
import os

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.generation.logprobs import likeliest, log_softmax, logprob_of
from edgeformer.generation.stream import Stream
from tests import bundles
from tests.scripted import ScriptedBackend
from tests.test_cli import run

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE] + ([bundles.FUSED] if FUSED_RUNS else [])


def exact(logits):
    """By definition, in float64 and an exact sum."""
    values = [float(value) for value in logits]
    most = max(values)
    whole = most + math.log(math.fsum(math.exp(value - most) for value in values))
    return [value - whole for value in values]


@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e30])
def test_log_probabilities_follow_their_definition(scale):
    logits = np.random.RandomState(2).standard_normal(1000).astype(np.float32) * np.float32(scale)
    found, wanted = log_softmax(logits), exact(logits)
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    assert [logprob_of(logits, token) for token in range(1000)] == pytest.approx(found, rel=1e-15)
    assert logits.dtype == np.float32


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_logit_that_is_no_number_is_refused(bad):
    logits = np.zeros(8, np.float32)
    logits[3] = bad
    for function in (log_softmax, lambda found: logprob_of(found, 0)):
        with pytest.raises(EdgeformerError, match="1 logits of 8"):
            function(logits)


def test_the_likeliest_come_first_and_of_equal_ones_the_lowest_id():
    logprobs = np.array([-3.0, -1.0, -2.0, -1.0, -9.0] * 100)
    found = likeliest(logprobs, 4)
    assert found == ((1, -1.0), (3, -1.0), (6, -1.0), (8, -1.0))
    assert likeliest(logprobs, 0) == ()
    levels = np.repeat([-2.0, -1.0], 150)
    assert [token for token, _ in likeliest(levels, 300)] == [*range(150, 300), *range(150)]
    assert len(likeliest(logprobs, 10**6)) == 500
    assert likeliest(np.array([-5.0, -4.0]), 2) == ((1, -4.0), (0, -5.0))


@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.3, "seed": 5, "top_k": 40}])
def test_a_step_tells_how_likely_its_token_and_the_others_were(path, sampling):
    with edgeformer.load(path, threads=1) as model:
        plain = model.generate("the cat", max_new_tokens=20, **sampling)
        steps = list(model.stream("the cat", max_new_tokens=20, logprobs=5, **sampling))
        assert tuple(step.token for step in steps) == plain.tokens
        ids = [*model.prompt_ids("the cat"), *plain.tokens]
        score = model.score(ids)
        assert [step.logprob for step in steps] == pytest.approx(
            score.logprobs[-len(steps) :], rel=1e-4, abs=1e-4
        )
        model.backend.truncate(0)
        prompt = len(ids) - len(steps)
        for position, token in enumerate(ids[:-1]):
            logits = model.backend.step([token], [position], [0]).logits[0]
            if position >= prompt - 1:
                step, wanted = steps[position - prompt + 1], exact(logits)
                assert [token for token, _ in step.top] == np.argsort(-logits)[:5].tolist()
                assert [each for _, each in step.top] == pytest.approx(
                    sorted(wanted)[:-6:-1], rel=1e-3, abs=1e-3
                )


def test_rules_choose_another_token_and_do_not_touch_its_probability():
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        first = model.generate("the cat", max_new_tokens=1, logprobs=3)
        (likeliest_token, logprob), (second, _), _ = first.top[0]
        assert (first.tokens, first.logprobs) == ((likeliest_token,), (logprob,))
        banned = model.generate(
            "the cat", max_new_tokens=1, logprobs=3, banned_tokens=[likeliest_token]
        )
        assert banned.tokens == (second,)
        assert banned.top == first.top
        assert banned.logprobs == (first.top[0][1][1],)


def test_0_asks_for_the_token_alone_and_none_for_nothing():
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        told = model.generate("the cat", max_new_tokens=4, logprobs=0)
        assert (len(told.logprobs), told.top) == (4, ((),) * 4)
        plain = model.generate("the cat", max_new_tokens=4)
        assert (plain.logprobs, plain.top) == ((), ())


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.3, "seed": 5}])
def test_drafted_tokens_have_theirs_too(sampling):
    asked = dict(sampling, max_new_tokens=40, logprobs=2, forced_tokens=[12, 13, 14] * 8)
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        prompt = [7, 8, 9, 10, 11] * 5
        plain = model.generate(prompt, **asked)
        drafted = model.generate(prompt, draft="lookup", **asked)
        assert drafted.stats.accepted > 0
        assert len(drafted.logprobs) == len(drafted.top) == len(drafted.tokens)
        if not sampling:  # where a draft changes which number of the seed a token takes
            assert drafted.tokens == plain.tokens
            assert drafted.logprobs == pytest.approx(plain.logprobs, rel=1e-3, abs=1e-3)
        score = model.score(drafted.tokens, after=prompt)
        assert drafted.logprobs == pytest.approx(score.logprobs[len(prompt) :], rel=1e-3, abs=1e-3)


def test_an_equal_logit_at_the_top_gives_the_token_that_greedy_gives():
    logits = np.zeros(1000, np.float32)
    logits[[7, 900]] = 3.0
    params = SamplingParams(max_new_tokens=1, logprobs=2).checked()
    backend = ScriptedBackend(2, logits=logits)
    (step,) = Stream(backend, [1, 2], params, (), 100, 16)
    assert step.token == 7
    assert [token for token, _ in step.top] == [7, 900]


def test_they_stand_in_the_document_of_the_command(tmp_path):
    words = ["generate", bundles.ROPE, "the cat", "--max-new-tokens", "3", "--logprobs", "2"]
    status, out, err = run(*words)
    assert (status, out) == (2, b"")
    assert b"add --json" in err
    document = json.loads(run(*words, "--json")[1].decode("ascii"))
    assert len(document["logprobs"]) == 3
    for token, told in zip(document["tokens"], document["logprobs"]):
        assert told["top"][0] == [token, told["logprob"]]
        assert len(told["top"]) == 2
