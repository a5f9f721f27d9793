"""Drafts change what a stream costs, and no token of it."""

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.generation.drafting import Drafter, verify
from edgeformer.generation.drafting.lookup import Lookup
from edgeformer.generation.drafting.pace import MEASURED, OTHERS
from edgeformer.generation.golden import STEP_SIZES
from edgeformer.generation.steps import shared
from edgeformer.generation.stream import Stream
from tests import bundles
from tests.drafters import MarkovBackend, Told

NEW = int(onnxruntime.__version__.split(".")[1]) >= 24
FP32 = [bundles.ROPE, bundles.LEARNED] + ([bundles.FUSED] if NEW else [])
PROMPTS = ([5, 9, 5, 9, 5], [3, 4, 5, 6, 3, 4], [11])
ASKED = (
    {},
    {"repetition_penalty": 1.3, "presence_penalty": 0.5},
    {"no_repeat_ngram_size": 3, "min_new_tokens": 9},
    {"logprobs": 2},
    {"temperature": 0.9, "seed": 7},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "frequency_penalty": 0.4, "seed": 2**63},
)


@pytest.fixture(scope="module", params=FP32, ids=lambda path: path.rsplit("-", 1)[1])
def model(request):
    with edgeformer.load(request.param) as opened:
        yield opened


def streamed(model, prompt, drafter=None, **asked):
    """Stream and steps of a prompt of ids, with a drafter that the test made."""
    params = model.defaults.changed(asked)
    manifest = model.bundle.manifest
    text = model.tokenizer.stream(after_text=True)
    args = model.backend, prompt, params, model._eos_ids, manifest.capacity, manifest.chunk, text
    stream = Stream(*args, drafter=drafter)
    return stream, list(stream)


def tokens(steps):
    return [step.token for step in steps]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_drafted_stream_has_the_tokens_and_texts_of_a_plain_one(model, asked):
    for prompt, wrong in zip(PROMPTS, (0, 2, 5)):
        plain, steps = streamed(model, prompt, max_new_tokens=20, **asked)
        told = Told(prompt + tokens(steps), wrong)
        drafted, found = streamed(model, prompt, told, max_new_tokens=20, **asked)
        assert [step[:3] for step in found] == [step[:3] for step in steps]
        assert drafted.finish_reason == plain.finish_reason
        if len(steps) > 8 and not wrong:
            assert drafted.stats.accepted == drafted.stats.drafted > 0
            assert drafted.stats.steps < len(steps) / 2
        if len(steps) > 8 and wrong == 5:
            assert 0 < drafted.stats.accepted < drafted.stats.drafted


def test_a_model_repeats_itself_and_lookup_finds_it(model):
    prompt = [3, 4, 5, 6, 3, 4] * 2
    asked = {"max_new_tokens": 18, "logit_bias": {3: 6.0, 4: 6.0, 5: 6.0, 6: 6.0}}
    _, steps = streamed(model, prompt, **asked)
    _, found = streamed(model, prompt, Lookup(), **asked)
    assert tokens(found) == tokens(steps)


@pytest.mark.parametrize("most", [1, 2, 3, 9])
def test_max_new_tokens_holds_wherever_a_draft_would_end(model, most):
    prompt = PROMPTS[0]
    _, steps = streamed(model, prompt, max_new_tokens=16)
    drafted, found = streamed(model, prompt, Told(prompt + tokens(steps)), max_new_tokens=most)
    assert tokens(found) == tokens(steps)[:most]
    assert drafted.finish_reason == "length"
    assert model.backend.cached <= len(prompt) + most


def test_a_draft_never_leaves_the_cache_and_fills_it_to_the_last_row(model):
    prompt = [5] * (model.bundle.manifest.capacity - 9)
    plain, steps = streamed(model, prompt)
    drafted, found = streamed(model, prompt, Told(prompt + tokens(steps) + [3] * 20))
    assert tokens(found) == tokens(steps)
    assert drafted.finish_reason == plain.finish_reason == "capacity"


def test_an_end_token_inside_a_draft_ends_the_stream_and_leaves_no_row_behind_it(model):
    prompt = PROMPTS[1]
    _, steps = streamed(model, prompt, max_new_tokens=12)
    text = tokens(steps)
    end = text[6]
    before = text.index(end)
    args = model.backend, prompt, SamplingParams(), frozenset([end]), 30, 16
    stream = Stream(*args, drafter=Told(prompt + text))
    assert [step.token for step in stream] == text[: before + 1]
    assert stream.finish_reason == "stop"
    assert model.backend.cached == len(prompt) + before
    assert model.cached_ids == prompt + text[:before]


def test_a_draft_ends_before_an_end_token(model):
    """Nothing that follows it is of use, and its own row is not either."""
    prompt = PROMPTS[1]
    _, steps = streamed(model, prompt, max_new_tokens=12)
    text = tokens(steps)
    end = text[6]
    before = text.index(end)
    args = model.backend, prompt, SamplingParams(), frozenset([end]), 30, 16
    stream = Stream(*args, drafter=Told(prompt + text))
    assert [step.token for step in stream] == text[: before + 1]
    assert stream.stats.drafted == stream.stats.accepted == before - 1


def test_a_stop_string_inside_a_draft_ends_the_text_before_it(model):
    prompt = PROMPTS[1]
    _, steps = streamed(model, prompt, max_new_tokens=14)
    text = "".join(step.text for step in steps)
    stop = text[5:8]
    plain, wanted = streamed(model, prompt, max_new_tokens=14, stop=(stop,))
    told = Told(prompt + tokens(steps))
    drafted, found = streamed(model, prompt, told, max_new_tokens=14, stop=(stop,))
    assert drafted.finish_reason == plain.finish_reason == "stop_string"
    assert "".join(step.text for step in found) == "".join(step.text for step in wanted)


def test_a_closed_stream_leaves_only_rows_of_its_text(model):
    prompt = PROMPTS[0]
    _, steps = streamed(model, prompt, max_new_tokens=16)
    args = model.backend, prompt, SamplingParams(), frozenset(), 30, 16
    stream = Stream(*args, drafter=Told(prompt + tokens(steps)))
    taken = [next(stream).token for _ in range(4)]
    stream.close()
    assert model.cached_ids == (prompt + taken)[: len(model.cached_ids)]
    assert model.backend.cached <= len(prompt) + 4


def test_tied_tokens_are_computed_again_as_plain_decoding_does(model, monkeypatch):
    prompt = PROMPTS[0]
    _, steps = streamed(model, prompt, max_new_tokens=16)
    told = prompt + tokens(steps)
    untied, _ = streamed(model, prompt, Told(told), max_new_tokens=16)
    monkeypatch.setattr(verify, "ROUNDING", 1e9)  # now all are
    for asked in ({}, {"repetition_penalty": 1.0001}):
        drafted, found = streamed(model, prompt, Told(told), max_new_tokens=16, **asked)
        assert tokens(found) == tokens(steps)
        assert drafted.stats.steps > untied.stats.steps
        # Each row but the last token's was last computed by a step of one token.
        assert all(row[2] == 1 for row in model.backend.held[len(prompt) :])


def test_greedy_drafts_are_refused_where_steps_round_otherwise():
    if not NEW:
        pytest.skip("onnxruntime is older than 1.24")
    with edgeformer.load(bundles.BLOCKS) as model:
        with pytest.raises(EdgeformerError, match="computes in n8"):
            model.stream([5, 9], draft="lookup")
        drawn = [
            model.generate([5, 9] * 4, draft=draft, temperature=1.0, seed=3, max_new_tokens=9)
            for draft in ("lookup", "lookup")
        ]
        assert drawn[0].tokens == drawn[1].tokens


# The exact distribution, on a model that can be written down.

SHARES = np.array([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
LENGTH = 6000
CRITICAL = 32.9  # chi-square of 4 x 3 degrees of freedom: above it once in 1000


def drawn(drafter, seed, length=LENGTH, temperature=1.0):
    params = SamplingParams(max_new_tokens=length, temperature=temperature, seed=seed)
    backend = MarkovBackend(np.log(SHARES))
    stream = Stream(backend, [0], params, (), length + 1, 8, drafter=drafter)
    return [step.token for step in stream], stream.stats


def chi_square(tokens):
    """Of what followed each token against its shares."""
    counts = np.zeros((4, 4))
    np.add.at(counts, ([0, *tokens[:-1]], tokens), 1)
    wanted = SHARES * counts.sum(axis=1, keepdims=True)
    return float(((counts - wanted) ** 2 / wanted).sum())


@pytest.mark.parametrize("drafted_seed, plain_seed", [(1, 2), (2, 1)])
def test_drawn_tokens_have_the_exact_distribution(drafted_seed, plain_seed):
    found, stats = drawn(Told([0, 1, 3, 0, 0, 2] * LENGTH), drafted_seed)
    assert stats.accepted > LENGTH / 10 and stats.drafted > 2 * stats.accepted
    assert chi_square(found) < CRITICAL
    assert chi_square(drawn(None, plain_seed)[0]) < CRITICAL


def test_the_statistic_finds_another_distribution():
    assert chi_square(drawn(None, 1, temperature=1.15)[0]) > CRITICAL


def test_a_seed_draws_the_same_text_with_and_without_drafts():
    for seed in range(5):
        plain, _ = drawn(None, seed, 50)
        for most in (1, 2, 5):
            assert drawn(Told([0, 1, 3] * 50, most=most), seed, 50)[0] == plain
        assert drawn(Lookup(), seed, 50)[0] == plain


# What a draft is worth, and what it cost.


def best_length(chances, cost, unit):
    class Sure(Drafter):
        def chances(self, most):
            return chances[:most]

    Sure.unit = unit
    return Sure().best(15, cost)[0]


def test_no_draft_is_longer_than_the_steps_whose_bits_are_compared():
    assert max(cost.most for cost in (*MEASURED.values(), OTHERS)) <= STEP_SIZES[-1]


def test_a_draft_is_as_long_as_it_pays():
    cost = MEASURED["ort", "n8"]
    assert best_length([0.1] * 15, cost, 0.0) == 0
    assert 1 <= best_length([0.6] * 15, cost, 0.0) <= 5
    assert best_length([0.6] * 15, cost, 0.0) < best_length([0.8] * 15, cost, 0.0)
    assert best_length([0.99] * 15, cost, 0.0) == 15
    assert best_length([], cost, 0.0) == 0


def test_dear_steps_and_dear_drafts_want_likelier_tokens():
    chances = [0.55] * 15
    assert best_length(chances, MEASURED["ort", "n8"], 0.0) > 0
    assert best_length(chances, MEASURED["ort", "fp32"], 0.0) == 0
    assert best_length(chances, MEASURED["ort", "n8"], 0.9) == 0


def test_tokens_of_one_step_share_its_time():
    times = [4.0, 9.0, 0.0, 0.0, 5.0]
    assert shared(times, [True, True, False, False, True]) == (4.0, 3.0, 3.0, 3.0, 5.0)
    assert shared(times, []) == tuple(times)
    assert shared([], []) == ()
