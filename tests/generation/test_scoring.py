"""Scores of texts against logits taken one token at a time and a softmax in Python's own floats."""

import json
import math
import os

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError
from edgeformer.generation import scoring
from tests import bundles
from tests.test_cli import run

CLOSE = {"rel": 1e-4, "abs": 1e-4}
FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE, bundles.LEARNED] + ([bundles.FUSED] if FUSED_RUNS else [])


@pytest.fixture(scope="module")
def model():
    with edgeformer.load(bundles.ROPE, threads=1) as loaded:
        yield loaded


def one_by_one(model, ids):
    """log p of each token after those before it, in steps of one token; the first has none."""
    model.backend.truncate(0)
    found = []
    for position, token in enumerate(ids[:-1]):
        logits = model.backend.step([token], [position], [0]).logits[0].tolist()
        most = max(logits)
        whole = math.fsum(math.exp(each - most) for each in logits)
        found.append(logits[ids[position + 1]] - most - math.log(whole))
    return found


def ids_of(model, count):
    vocabulary = model.bundle.manifest.model["vocab_size"]
    return np.random.RandomState(3).randint(0, vocabulary, count).tolist()


@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
def test_a_score_is_the_log_probability_of_each_token_after_those_before(path):
    with edgeformer.load(path, threads=1) as model:
        capacity = model.bundle.manifest.capacity
        for count in (2, 3, capacity // 2, capacity, capacity + 1):
            ids = ids_of(model, count)
            score = model.score(ids)
            assert score.tokens == tuple(ids)
            assert score.logprobs[0] is None
            assert score.logprobs[1:] == pytest.approx(one_by_one(model, ids), **CLOSE)
            assert score.scored == count - 1
            assert score.total == pytest.approx(sum(score.logprobs[1:]))
            assert score.perplexity == pytest.approx(math.exp(-score.total / (count - 1)))


def test_the_size_of_a_step_changes_nothing(model, monkeypatch):
    ids = ids_of(model, 90)
    whole = model.score(ids)
    steps = []
    step = model.backend.step
    monkeypatch.setattr(model.backend, "step", lambda *a: steps.append(len(a[0])) or step(*a))
    monkeypatch.setattr(scoring, "MOST_LOGITS", 7 * model.bundle.manifest.model["vocab_size"])
    assert model.score(ids).logprobs[1:] == pytest.approx(whole.logprobs[1:], **CLOSE)
    assert steps == [7] * 12 + [5]


def test_what_comes_before_is_read_and_not_scored(model):
    ids = ids_of(model, 60)
    whole, part = model.score(ids), model.score(ids[40:], after=ids[:40])
    assert part.tokens == tuple(ids)
    assert part.logprobs[:40] == (None,) * 40
    assert part.logprobs[40:] == pytest.approx(whole.logprobs[40:], **CLOSE)
    assert part.scored == 20


def test_a_text_after_another_is_their_sum_in_tokens(model):
    after, text = "the cat", " and the other"
    first, ids = model.prompt_ids(after), model.prompt_ids(after + text)
    assert ids[: len(first)] == first
    score = model.score(text, after=after)
    assert score.tokens == tuple(ids)
    assert score.scored == len(ids) - len(first)


def test_a_token_over_the_border_counts_to_the_second_text(model):
    ids = model.prompt_ids("the other")
    score = model.score("e other", after="th")
    assert score.tokens == tuple(ids)
    assert model.tokenizer.decode(ids[:1]) == "the"
    assert (score.logprobs[0], score.scored) == (None, len(ids) - 1)


def test_after_an_empty_text_the_first_token_is_scored_too(model):
    ids = model.prompt_ids("the cat")
    score = model.score("the cat", after="")
    assert score.tokens == (model.bundle.manifest.eos_token_ids[0], *ids)
    assert score.scored == len(ids)


@pytest.mark.parametrize("overlap, more", [(1, 131), (37, 131), (99, 5), (100, 2)])
def test_in_windows_each_token_sees_at_least_the_overlap_before_it(model, overlap, more):
    capacity = model.bundle.manifest.capacity
    ids = ids_of(model, capacity + more)
    score = model.score(ids, overlap=overlap)
    assert (len(score.logprobs), score.scored) == (len(ids), len(ids) - 1)
    first, done = 0, 1
    while done < len(ids):
        window = ids[first : first + capacity + 1]
        expected = one_by_one(model, window)[done - first - 1 :]
        assert score.logprobs[done : done + len(expected)] == pytest.approx(expected, **CLOSE)
        assert first == 0 or done - first == overlap
        done += len(expected)
        first = done - overlap


def test_a_text_longer_than_the_cache_is_refused_with_both_numbers(model):
    with pytest.raises(EdgeformerError) as caught:
        model.score(ids_of(model, 102))
    assert "102 tokens" in str(caught.value)
    assert "101" in str(caught.value)
    assert "--overlap 50" in str(caught.value)


@pytest.mark.parametrize(
    "text, asked, named",
    [
        ("the", {}, "1 tokens"),
        ([5], {}, "1 tokens"),
        ("", {"after": "the cat"}, "none to score"),
        ([], {"after": [5, 6]}, "none to score"),
        ("the", {"after": [5]}, "both"),
        ([5, 6], {"overlap": 0}, "from 1 to 100"),
        ([5, 6], {"overlap": 101}, "from 1 to 100"),
        ([5, 6], {"overlap": 1.5}, "1.5"),
        ([5, 6], {"overlap": True}, "from 1 to 100"),
        ([5, 999], {}, "999"),
    ],
)
def test_what_cannot_be_scored_is_refused(model, text, asked, named):
    with pytest.raises(EdgeformerError) as caught:
        model.score(text, **asked)
    assert named in str(caught.value)


def test_a_score_leaves_no_rows_that_an_answer_would_see(model):
    answer = model.generate("the cat", max_new_tokens=9).tokens
    stream = model.stream("the cat")
    next(stream)
    model.score(ids_of(model, 30))
    with pytest.raises(EdgeformerError, match="another stream"):
        next(stream)
    assert model.generate("the cat", max_new_tokens=9).tokens == answer


def test_a_broken_logit_is_an_error_and_no_score(model, monkeypatch):
    step = model.backend.step

    def broken(*arguments):
        output = step(*arguments)
        output.logits[-1, 4] = np.nan
        return output

    monkeypatch.setattr(model.backend, "step", broken)
    with pytest.raises(EdgeformerError, match="1 logits of"):
        model.score("the cat and the other")


def test_the_verb_gives_the_same_in_words_and_as_json(model):
    score = model.score(" and the other", after="the cat")
    words = ["score", bundles.ROPE, "-", "--after", "the cat"]
    status, out, err = run(*words, stdin=b" and the other\n")
    assert (status, out.decode("ascii")) == (0, str(score) + "\n")
    assert b"backend: ort" in err
    document = json.loads(run(*words, "--json", stdin=b" and the other")[1].decode("ascii"))
    assert [each["token"] for each in document["tokens"]] == list(score.tokens)
    assert [each["logprob"] is None for each in document["tokens"]] == [
        each is None for each in score.logprobs
    ]
    assert "".join(each["text"] for each in document["tokens"]) == "the cat and the other"
    assert document["perplexity"] == pytest.approx(score.perplexity, rel=1e-3)
    assert document["scored"] == score.scored


def test_the_verb_scores_ids_and_long_texts_in_windows():
    ids = " ".join(map(str, range(1, 151)))
    status, out, err = run("score", bundles.ROPE, ids, "--ids")
    assert (status, out) == (2, b"")
    assert b"--overlap 50" in err
    status, out, _ = run("score", bundles.ROPE, ids, "--ids", "--overlap", "50")
    assert status == 0
    assert b"of 149 tokens" in out
