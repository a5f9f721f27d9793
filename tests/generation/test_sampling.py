"""The sampling rules, each against what it says, and the draw against its probabilities."""

import numpy as np
import pytest

from edgeformer import EdgeformerError, SamplingParams
from edgeformer.generation.choosing import (
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    keep_typical,
    likely,
    with_temperature,
)
from edgeformer.generation.processor import refuse_broken
from edgeformer.generation.sampling import Sampler, sampler_for


def kept(scores):
    return np.flatnonzero(scores > -np.inf).tolist()


def random_logits(size=300, seed=5):
    return np.random.RandomState(seed).standard_normal(size).astype(np.float32) * 4


def test_top_k_keeps_the_k_largest_with_their_scores():
    scores = np.array([1.0, 5.0, 3.0, 4.0, 2.0])
    assert kept(keep_top_k(scores, 3)) == [1, 2, 3]
    assert keep_top_k(scores, 3)[[1, 2, 3]].tolist() == [5.0, 3.0, 4.0]
    for everything in (0, 5, 6, 2**31 - 1):
        assert kept(keep_top_k(scores, everything)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, 63, 64, 300, 4096, 50000])
@pytest.mark.parametrize("levels", [3, 40, 10**6])
def test_what_is_likely_holds_the_k_largest_and_their_equals(size, levels):
    """Against a whole sort; few levels make many equal ones."""
    source = np.random.RandomState(size + levels)
    for k in (1, 2, 40, 700):
        logits = source.randint(0, levels, size).astype(np.float32) - 5
        ids = likely(logits, k)
        assert (np.diff(ids) > 0).all()
        least = np.sort(logits)[::-1][: min(k, size)][-1]
        assert set(np.flatnonzero(logits >= least)) <= set(ids)
        assert kept(keep_top_k(logits, k)) == ids[kept(keep_top_k(logits[ids], k))].tolist()
    assert len(likely(logits, 0)) == size
    spread = source.standard_normal(50000).astype(np.float32)
    assert len(likely(spread, 40)) < 100


def test_a_draw_is_that_of_all_logits():
    """The rules over the whole vocabulary, and the sampler, which looks at few."""
    logits = random_logits(5000)
    for seed, (k, p, temperature) in enumerate([(40, 1.0, 0.8), (5, 0.9, 2.0), (0, 0.9, 1.0)] * 20):
        sampler = Sampler(SamplingParams(top_k=k, top_p=p, temperature=temperature), seed)
        scores = keep_top_p(keep_top_k(with_temperature(logits, temperature), k), p)
        point = np.random.RandomState(np.array([seed, 0], np.uint32)).random_sample()
        assert sampler(logits, []) == draw(scores, point)


def test_top_k_breaks_ties_by_the_lowest_id():
    assert kept(keep_top_k(np.array([1.0, 2.0, 1.0, 1.0, 0.0]), 2)) == [0, 1]
    assert kept(keep_top_k(np.zeros(50), 7)) == list(range(7))


@pytest.mark.parametrize(
    "p, wanted",
    [
        (1e-9, [2]),
        (0.49, [2]),
        (0.51, [1, 2]),
        (0.79, [1, 2]),
        (0.81, [0, 1, 2]),
        (1, [0, 1, 2, 3]),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(p, wanted):
    assert kept(keep_top_p(np.log([0.15, 0.3, 0.5, 0.05]), p)) == wanted


def test_top_p_counts_only_what_top_k_left():
    scores = keep_top_k(np.log([0.4, 0.3, 0.2, 0.1]), 2)
    assert kept(keep_top_p(scores, 0.5)) == [0]  # 0.4 of 0.7
    assert kept(keep_top_p(scores, 0.6)) == [0, 1]


def test_top_p_breaks_ties_by_the_lowest_id():
    assert kept(keep_top_p(np.zeros(1000), 0.25)) == list(range(250))


def by_whole_sort(scores, keys, p):
    """Ids of the fewest tokens by falling key, lowest id first, that have probability p."""
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    order = sorted(range(len(scores)), key=lambda i: (-keys[i], i))
    total = 0.0
    for length, token in enumerate(order, 1):
        total += shares[token]
        if total >= p:
            return order[:length]
    return order


@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
@pytest.mark.parametrize("p", [0.05, 0.6, 0.97])
@pytest.mark.parametrize("size", [700, 6000, 30000])
def test_what_a_large_vocabulary_keeps_is_what_a_whole_sort_keeps(size, p, spread):
    """A flat distribution needs nearly all tokens, a steep one a few: both ways are taken."""
    scores = np.random.RandomState(size).standard_normal(size) * spread
    scores[size // 2 :: 7] = -np.inf
    with np.errstate(invalid="ignore"):
        assert set(kept(keep_top_p(scores, p))) == set(by_whole_sort(scores, scores, p))
        logs = scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())
        keys = -np.abs(logs - np.nansum(np.exp(logs) * logs))
        assert set(kept(keep_typical(scores, p))) == set(by_whole_sort(scores, keys, p))


def test_min_p_is_a_share_of_the_likeliest():
    scores = np.log([0.5, 0.24, 0.26, 1e-300])
    assert kept(keep_min_p(scores, 0.5)) == [0, 2]
    assert kept(keep_min_p(scores, 1.0)) == [0]
    assert kept(keep_min_p(scores, 0.0)) == [0, 1, 2, 3]
    assert kept(keep_min_p(np.zeros(4), 1.0)) == [0, 1, 2, 3]


def test_typical_p_may_leave_the_likeliest_out():
    scores = np.log([0.4] + [0.06] * 10)  # surprises 0.92 and 2.81, entropy 2.05
    assert kept(keep_typical(scores, 0.4)) == list(range(1, 11))  # equals stay together
    assert kept(keep_typical(scores, 0.7)) == list(range(11))
    assert kept(keep_typical(scores, 1.0)) == list(range(11))


def test_temperature_divides_and_never_overflows():
    logits = random_logits()
    scores = with_temperature(logits, 2.0)
    assert np.allclose(scores, (logits.astype(np.float64) - logits.max()) / 2.0)
    for tiny in (1e-30, 1e-300, 5e-324):
        scores = with_temperature(logits, tiny)
        assert draw(scores, 0.999) == logits.argmax()


def test_a_point_finds_the_token_whose_share_it_lies_in():
    scores = np.log([0.25, 0.5, 0.25])
    points = [0.0, 0.2499, 0.2501, 0.7499, 0.7501, 1 - 2**-53]
    assert [draw(scores, point) for point in points] == [0, 0, 1, 1, 2, 2]


def test_a_token_without_probability_is_never_drawn():
    scores = np.array([-np.inf, 0.0, -np.inf, 0.0, -np.inf])
    assert {draw(scores, point) for point in (0.0, 0.3, 0.5, 0.7, 1 - 2**-53)} == {1, 3}


def test_draws_follow_the_probabilities():
    sampler = Sampler(SamplingParams(temperature=1.0), 3)
    logits = np.log([0.1, 0.2, 0.3, 0.4]).astype(np.float32)
    counts = np.bincount([sampler(logits, []) for _ in range(8000)], minlength=4)
    expected = 8000 * np.array([0.1, 0.2, 0.3, 0.4])
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 16.3  # 3 degrees of freedom, 1 in 1000


def test_the_stream_of_a_seed_is_the_same_on_every_numpy():
    logits = random_logits()
    drawn = {}
    for seed in (0, 1, 2**32, 2**32 + 1, 2**64 - 1):
        sampler = Sampler(SamplingParams(temperature=1.5), seed)
        drawn[seed] = [sampler(logits, []) for _ in range(8)]
    assert drawn == {
        0: [17, 46, 24, 2, 57, 140, 17, 209],
        1: [16, 180, 156, 57, 107, 107, 135, 156],
        2**32: [2, 107, 2, 117, 156, 72, 107, 107],
        2**32 + 1: [57, 107, 107, 2, 117, 136, 140, 8],
        2**64 - 1: [2, 80, 55, 117, 217, 80, 141, 142],
    }
    assert len({tuple(tokens) for tokens in drawn.values()}) == len(drawn)


def test_the_text_of_a_seed_is_the_same_on_every_numpy():
    """All rules at once, over 60 tokens of a text; measured on numpy 2.4 and 1.19."""
    params = SamplingParams(
        temperature=1.7,
        top_k=200,
        top_p=0.9,
        min_p=0.001,
        typical_p=0.95,
        repetition_penalty=1.2,
        frequency_penalty=0.3,
        presence_penalty=0.2,
        no_repeat_ngram_size=2,
        logit_bias=((5, 2.5),),
        banned_tokens=(9, (5, 7)),
        forced_tokens=(11, 12),
        min_new_tokens=20,
    ).checked()
    sampler = Sampler(params, 2**63, 3, [5])
    ids = [1, 2, 3]
    for step in range(60):
        ids.append(sampler(random_logits(300, step % 4), ids))
    text = " ".join(map(str, ids[3:]))
    assert text == (
        "11 12 168 258 16 225 144 213 198 68 31 69 100 172 168 241 43 279 158 164 "
        "287 43 259 247 3 192 144 85 161 199 146 99 24 118 168 164 110 253 168 63 "
        "84 253 144 234 24 248 106 265 43 101 277 196 218 253 203 131 24 38 168 234"
    )


def test_top_k_1_is_greedy_at_any_temperature():
    logits = random_logits()
    sampler = Sampler(SamplingParams(temperature=100.0, top_k=1), 1)
    assert {sampler(logits, []) for _ in range(20)} == {int(logits.argmax())}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_logit_that_is_no_number_is_an_error_with_counts(bad):
    logits = random_logits()
    logits[[3, 7]] = bad
    with pytest.raises(EdgeformerError) as caught:
        Sampler(SamplingParams(temperature=1.0), 1)(logits, [])
    assert "2 logits of 300" in str(caught.value)
    refuse_broken(random_logits())


def test_a_seed_is_drawn_when_none_is_asked_for_and_greedy_needs_none():
    seeds = {sampler_for(SamplingParams(temperature=1.0))[1] for _ in range(4)}
    assert len(seeds) == 4
    assert sampler_for(SamplingParams()) == (None, None)
    assert sampler_for(SamplingParams(seed=5)) == (None, 5)
