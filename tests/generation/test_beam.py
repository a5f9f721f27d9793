"""Beam search against an enumeration of all answers, and what it refuses."""

import itertools
import json
import os

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.backends import Output, Rows
from edgeformer.generation.beam import Rules, search
from edgeformer.generation.logprobs import log_softmax
from tests import bundles
from tests.scripted import ScriptedBackend
from tests.test_cli import run

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE] + ([bundles.FUSED] if FUSED_RUNS else [])
VOCABULARY, END = 4, 3
PROMPT = [1, 2, 0]


class Table(ScriptedBackend):
    """Logits that are a function of all tokens in the cache: a wrong row gives other ones.

    A row's only value is its token.
    """

    abilities = frozenset(["rows"])

    def __init__(self, seed):
        super().__init__(len(PROMPT))
        self.seed = seed
        self.rows = []
        self.written = 0

    def step(self, token_ids, positions, rows, want="logits"):
        assert list(positions) == list(range(len(self.rows), len(self.rows) + len(token_ids)))
        self.rows += token_ids
        self.calls.append(list(token_ids))
        return Output(self.logits_of(self.rows)[None], None)

    def logits_of(self, ids):
        key = np.array([self.seed, *ids], np.uint32)
        return np.random.RandomState(key).standard_normal(VOCABULARY).astype(np.float32) * 2

    def truncate(self, rows):
        self.rows = self.rows[:rows]

    def read_rows(self, start, stop):
        values = np.array([[[token] for token in self.rows[start:stop]]], np.float32)
        return Rows(np.arange(start, stop, dtype=np.int32), values)

    def write_rows(self, rows, token_ids=()):
        assert rows.positions.tolist() == list(range(len(self.rows), len(self.rows) + len(rows[0])))
        self.written += len(rows.positions)
        self.rows += [int(value) for value in rows.values[0, :, 0]]


def searched(backend, rules, ends=(END,), **asked):
    params = SamplingParams().changed(asked)
    return search(backend, PROMPT, rules.checked(), params, ends, 100, 2)


def enumerated(backend, most, penalty):
    """(score, tokens) of every answer: up to an end token, or with `most` tokens."""
    found = []
    for length in range(1, most + 1):
        for tokens in itertools.product(range(VOCABULARY), repeat=length):
            whole = tokens[-1] == END or length == most
            if END not in tokens[:-1] and whole:
                logprob = sum(
                    log_softmax(backend.logits_of([*PROMPT, *tokens[:index]]))[token]
                    for index, token in enumerate(tokens)
                )
                found.append((logprob / length**penalty, tokens))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 1.0, -1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_with_beams_for_every_continuation_the_best_of_all_answers_is_found(seed, penalty):
    backend = Table(seed)
    found = searched(backend, Rules(64, penalty, "never"), max_new_tokens=4)
    wanted = enumerated(backend, 4, penalty)
    assert len(wanted) > 64
    assert [each.tokens for each in found] == [tokens for _, tokens in wanted[:64]]
    assert [each.score for each in found] == pytest.approx([score for score, _ in wanted[:64]])
    for each in found:
        assert each.score == pytest.approx(each.logprob / len(each.tokens) ** penalty)
        assert each.finish_reason == ("stop" if each.tokens[-1] == END else "length")


def test_where_the_likeliest_tokens_end_others_go_on_in_their_place():
    class Ending(Table):
        def logits_of(self, ids):
            return np.array([0.0, 1.0, 2.0, 3.0], np.float32)  # the end is always the likeliest

    for beams in (1, 2):
        (best, *_) = searched(Ending(0), Rules(beams, 9.0, "never"), max_new_tokens=4)
        assert best.tokens == (2, 2, 2, END)  # such a penalty is for long answers


def test_one_beam_without_ends_is_greedy():
    backend = Table(5)
    (found,) = searched(backend, Rules(1), ends=(), max_new_tokens=12)
    ids = list(PROMPT)
    for _ in range(12):
        ids.append(int(backend.logits_of(ids).argmax()))
    assert list(found.tokens) == ids[len(PROMPT) :]


def test_each_token_of_a_beam_is_computed_once():
    backend = Table(1)
    searched(backend, Rules(5), ends=(), max_new_tokens=9)
    assert sorted(map(len, backend.calls)) == [1] * (1 + 8 * 5 - (5 - VOCABULARY)) + [2]


def test_rows_that_the_cache_still_holds_are_not_written_again():
    one = Table(1)
    searched(one, Rules(1), ends=(), max_new_tokens=30)
    assert one.written == 0
    four = Table(1)
    searched(four, Rules(4), ends=(), max_new_tokens=30)
    assert 0 < four.written < 30 * 4 * 30 / 4  # all of them: half as many as 30 * 4 * 30


def test_early_stopping_ends_with_as_many_answers_as_beams():
    def tokens(early):
        backend = Table(11)
        found = searched(backend, Rules(3, 1.0, early), max_new_tokens=30)
        assert len(found) == 3
        return len(backend.calls)

    assert tokens(True) < tokens(False) < tokens("never")


def test_rules_that_change_logits_hold_for_beams():
    plain = searched(Table(2), Rules(4), max_new_tokens=5)
    banned = plain[0].tokens[0]
    for each in searched(Table(2), Rules(4), max_new_tokens=5, banned_tokens=[banned]):
        assert banned not in each.tokens
    for each in searched(Table(2), Rules(4), max_new_tokens=5, min_new_tokens=4):
        assert END not in each.tokens[:4]
    for each in searched(Table(2), Rules(4), max_new_tokens=7, no_repeat_ngram_size=2):
        text = [*PROMPT, *each.tokens]
        pairs = list(zip(text, text[1:]))
        assert len(set(pairs)) == len(pairs)


def test_the_capacity_ends_beams_too():
    backend = Table(2)
    found = search(backend, PROMPT, Rules(2), SamplingParams(), (), 6, 2)
    assert [(len(each.tokens), each.finish_reason) for each in found] == [(4, "capacity")] * 2
    assert max(map(len, [backend.rows])) <= 6


def test_at_a_deadline_the_open_beams_are_the_answers():
    class Slow(Table):
        def step(self, *arguments):
            os.times()
            end = os.times().elapsed + 0.03
            while os.times().elapsed < end:
                pass
            return super().step(*arguments)

    found = searched(Slow(2), Rules(2), ends=(), deadline_s=0.3)
    assert [each.finish_reason for each in found] == ["deadline"] * 2
    assert 1 < len(found[0].tokens) < 10
    assert searched(Slow(2), Rules(2), deadline_s=1e-9) == []


def test_a_backend_that_cannot_copy_rows_is_refused():
    with pytest.raises(EdgeformerError, match="scripted cannot copy rows"):
        search(ScriptedBackend(3), PROMPT, Rules(2), SamplingParams(), (), 9, 9)


@pytest.mark.parametrize("path", PATHS, ids=os.path.basename)
def test_a_beams_log_probability_is_the_score_of_its_tokens(path):
    with edgeformer.load(path, threads=1) as model:
        found = model.beams("the cat", beams=3, n=3, max_new_tokens=9, length_penalty=0.5)
        prompt = model.prompt_ids("the cat")
        for each in found:
            score = model.score(each.tokens, after=prompt)
            assert each.logprob == pytest.approx(score.total, rel=1e-4)
            assert each.score == pytest.approx(each.logprob / len(each.tokens) ** 0.5)
            assert each.text == model.tokenizer.decode(each.tokens)
        assert found[0].score >= found[1].score >= found[2].score
        assert model.generate("the cat", max_new_tokens=5).tokens  # the cache is free again


@pytest.mark.parametrize(
    "asked, named",
    [
        ({"beams": 0}, "from 1 to 256"),
        ({"beams": 2.0}, "from 1 to 256"),
        ({"beams": 3, "n": 4}, "from 1 to 3"),
        ({"length_penalty": float("nan")}, "from -10 to 10"),
        ({"length_penalty": "long"}, "from -10 to 10"),
        ({"early_stopping": "yes"}, "never"),
        ({"temperature": 0.5}, "no temperature"),
        ({"stop": "x"}, "no stop"),
        ({"logprobs": 1}, "no logprobs"),
        ({"beamz": 1}, "beamz"),
        ({"banned_tokens": [9999]}, "9999"),
    ],
)
def test_what_beams_cannot_do_is_refused(asked, named):
    with edgeformer.load(bundles.ROPE, threads=1) as model, pytest.raises(
        EdgeformerError
    ) as caught:
        model.beams("the cat", **asked)
    assert named in str(caught.value)


def test_the_command_gives_the_best_and_as_json_the_scores():
    words = ["generate", bundles.ROPE, "the cat", "--beams", "3", "--max-new-tokens", "6"]
    words += ["--length-penalty", "0.8", "--early-stopping", "never"]
    with edgeformer.load(bundles.ROPE) as model:
        wanted = model.beams(
            "the cat", beams=3, n=2, max_new_tokens=6, length_penalty=0.8, early_stopping="never"
        )
    assert run(*words)[:2] == (0, wanted[0].text.encode("utf-8") + b"\n")
    document = json.loads(run(*words, "-n", "2", "--json")[1].decode("ascii"))
    assert [each["tokens"] for each in document["answers"]] == [list(w.tokens) for w in wanted]
    assert document["answers"][0]["score"] == pytest.approx(wanted[0].score)


@pytest.mark.parametrize(
    "words, named",
    [
        (["--length-penalty", "2"], b"add --beams"),
        (["--beams", "2", "--regex", "a"], b"do not go together"),
        (["--beams", "2", "--draft", "lookup"], b"do not go together"),
        (["--beams", "2", "--temperature", "1"], b"no temperature"),
        (["--beams", "2", "--stop", "a"], b"no stop"),
        (["--beams", "2", "--logprobs", "1", "--json"], b"no logprobs"),
        (["--top-p", "1.5"], b"top_p is 1.5"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_model_is_loaded(words, named):
    status, out, err = run("generate", "no-such-bundle", "the cat", *words)
    assert (status, out) == (2, b"")
    assert named in err


def test_a_deadline_before_the_first_token_is_told():
    words = ["generate", bundles.ROPE, "the cat", "--beams", "2", "--deadline", "1e-9"]
    status, out, err = run(*words)
    assert (status, out) == (0, b"\n")
    assert b"no answer" in err and b"deadline" in err
    assert json.loads(run(*words, "--json")[1].decode("ascii"))["answers"] == []


def test_beams_take_the_rows_of_a_loaded_prefix(tmp_path, monkeypatch):
    path, asked = str(tmp_path / "rows"), {"beams": 3, "n": 3, "max_new_tokens": 6}
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        wanted = model.beams("the cat and the other", **asked)
        ids = model.prompt_ids("the cat and the other")
        model.save_prefix(path, ids[:-2])
        model.truncate(0)
        model.load_prefix(path)
        steps, step = [], model.backend.step
        monkeypatch.setattr(model.backend, "step", lambda *a: steps.append(len(a[0])) or step(*a))
        found = model.beams(ids, **asked)
    assert steps[0] == 2
    assert [each.tokens for each in found] == [each.tokens for each in wanted]
