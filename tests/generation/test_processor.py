"""The rules over logits: what each leaves, of which tokens it knows, and what it refuses."""

import numpy as np
import pytest

from edgeformer import EdgeformerError, SamplingParams
from edgeformer.generation.processor import Constraint, Processor, changes_logits
from edgeformer.generation.sampling import Sampler, sampler_for

LOGITS = np.array([2.0, -1.0, 0.5, 3.0, 1.0, -2.0], np.float32)


def processed(ids, prompt=0, end_ids=(), logits=LOGITS, **asked):
    params = SamplingParams().changed(asked)
    return Processor(params, prompt, end_ids)(logits, ids)


def out(scores):
    return np.flatnonzero(scores == -np.inf).tolist()


def test_repetition_counts_the_prompt_too_and_each_token_once():
    found = processed([0, 1, 0], prompt=3, repetition_penalty=2.0)
    assert found.tolist() == [1.0, -2.0, 0.5, 3.0, 1.0, -2.0]


def test_frequency_and_presence_count_the_answer_alone():
    found = processed([3, 3, 0, 0, 1], prompt=2, frequency_penalty=0.5, presence_penalty=0.25)
    assert found.tolist() == [0.75, -1.75, 0.5, 3.0, 1.0, -2.0]


def test_no_ngram_is_repeated():
    assert out(processed([0, 1, 2, 4, 0, 1], no_repeat_ngram_size=3)) == [2]
    assert out(processed([0, 1, 2, 0, 1, 3, 0, 1], no_repeat_ngram_size=3)) == [2, 3]
    assert out(processed([4, 2], no_repeat_ngram_size=1)) == [2, 4]
    assert out(processed([0, 1], no_repeat_ngram_size=3)) == []
    assert out(processed([], no_repeat_ngram_size=1)) == []


def test_a_bias_is_added_and_a_banned_token_is_out():
    found = processed([], logit_bias={2: 1.5, 5: -1}, banned_tokens=[0, 3])
    assert found.tolist() == [-np.inf, -1.0, 2.0, -np.inf, 1.0, -3.0]


def test_the_last_token_of_a_banned_sequence_is_out_after_its_beginning():
    banned = [(1, 2, 3), (2, 4), (2, 5)]
    assert out(processed([1, 2], banned_tokens=banned)) == [3, 4, 5]
    assert out(processed([0, 2], banned_tokens=banned)) == [4, 5]
    assert out(processed([1], banned_tokens=banned)) == []
    assert out(processed([], banned_tokens=banned)) == []


def test_no_end_token_comes_before_the_least_length():
    for answer in range(4):
        found = processed([0] * (3 + answer), prompt=3, end_ids=(5, 2), min_new_tokens=2)
        assert out(found) == ([2, 5] if answer < 2 else [])


def test_an_answer_begins_as_it_was_forced_to_whatever_else_was_asked():
    asked = {"forced_tokens": [5, 1], "banned_tokens": [5], "min_new_tokens": 1}
    assert processed([0, 0], 2, (5,), **asked).argmax() == 5
    assert processed([0, 0, 5], 2, (5,), **asked).argmax() == 1
    assert out(processed([0, 0, 5, 1], 2, (5,), **asked)) == [5]
    assert sampler_for(SamplingParams().changed(asked), 2, (5,))[0](LOGITS, [0, 0]) == 5


class Only(Constraint):
    def __init__(self, allowed, may_end, size=6):
        self.allowed = allowed
        self.ends = may_end
        self.size = size
        self.asked = []

    def mask(self, new_ids):
        self.asked.append(list(new_ids))
        return np.isin(np.arange(self.size), self.allowed)

    def may_end(self, new_ids):
        return self.ends


def test_a_constraint_sees_the_answer_and_its_end_lets_end_tokens_in():
    for may_end, wanted in ((True, [3, 4]), (False, [0, 3, 4])):
        constraint = Only([1, 2, 5], may_end)
        scores = Processor(SamplingParams(), 2, (0,), constraint)(LOGITS, [9, 9, 4, 3])
        assert constraint.asked == [[4, 3]]
        assert out(scores) == wanted
    short = Processor(SamplingParams(), 0, (5,), Only([1, 2], True, size=3))(LOGITS, [])
    assert out(short) == [0, 3, 4]


def test_a_greedy_stream_with_rules_goes_through_logits_and_one_without_does_not():
    for asked in (
        {"repetition_penalty": 1.1},
        {"frequency_penalty": 0.1},
        {"presence_penalty": 0.1},
        {"no_repeat_ngram_size": 2},
        {"logit_bias": {1: 1}},
        {"banned_tokens": [3]},
        {"forced_tokens": [1]},
        {"min_new_tokens": 1},
    ):
        params = SamplingParams().changed(asked)
        assert changes_logits(params)
        assert isinstance(sampler_for(params)[0], Sampler)
    for asked in ({}, {"top_k": 5, "top_p": 0.5, "min_p": 0.5, "typical_p": 0.5, "logprobs": 3}):
        assert sampler_for(SamplingParams().changed(asked)) == (None, None)
    assert sampler_for(SamplingParams(banned_tokens=(3,)))[0](LOGITS, []) == 0
    assert sampler_for(SamplingParams(), constraint=Only([2], False))[0](LOGITS, []) == 2


def test_the_distribution_is_what_is_drawn_from():
    params = SamplingParams(temperature=1.5, top_k=4, banned_tokens=(3,), repetition_penalty=1.3)
    sampler = Sampler(params, 7)
    ids, shares = sampler.distribution(LOGITS, [0])
    assert ids.tolist() == [0, 1, 2, 4]
    scores = np.array([2.0 / 1.3, -1.0, 0.5, 1.0]) / 1.5
    assert np.allclose(shares, np.exp(scores) / np.exp(scores).sum(), rtol=1e-12, atol=0)
    counts = np.bincount([sampler(LOGITS, [0]) for _ in range(6000)], minlength=6)[ids]
    assert ((counts - 6000 * shares) ** 2 / (6000 * shares)).sum() < 16.3  # 1 in 1000
    ids, shares = Sampler(params._replace(temperature=0.0)).distribution(LOGITS, [0])
    assert (ids.tolist(), shares.tolist()) == ([0], [1.0])


def test_asking_for_a_distribution_takes_nothing_from_the_seed():
    params = SamplingParams(temperature=1.0)
    asked, plain = Sampler(params, 3), Sampler(params, 3)
    for _ in range(20):
        asked.distribution(LOGITS, [])
        assert asked(LOGITS, []) == plain(LOGITS, [])


def test_rules_that_leave_no_token_are_an_error_greedy_or_not():
    for temperature in (0.0, 1.0):
        params = SamplingParams(temperature=temperature, banned_tokens=tuple(range(6)))
        with pytest.raises(EdgeformerError) as caught:
            Sampler(params)(LOGITS, [])
        assert "leave none of 6 tokens" in str(caught.value)


def test_a_forced_token_that_the_constraint_refuses_is_an_error():
    params = SamplingParams(forced_tokens=(3,))
    with pytest.raises(EdgeformerError) as caught:
        Sampler(params, constraint=Only([1, 2], False))(LOGITS, [])
    assert "forced_tokens has 3" in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_gives_no_numbers_is_an_error_under_any_rule(bad):
    logits = LOGITS.copy()
    logits[[0, 3]] = bad
    with pytest.raises(EdgeformerError) as caught:
        processed([], logits=logits, banned_tokens=[0, 3])
    assert "2 logits of 6" in str(caught.value)


def test_an_id_beyond_the_logits_is_an_error_with_their_number():
    with pytest.raises(EdgeformerError) as caught:
        processed([], banned_tokens=[6])
    assert "the vocabulary has 6 tokens" in str(caught.value)


def test_the_logits_of_the_caller_stay_as_they_are():
    before = LOGITS.copy()
    processed([0], 0, (1,), forced_tokens=[2], banned_tokens=[1], repetition_penalty=2.0)
    assert (before == LOGITS).all()
