"""Quality figures against their formulas, and texts that are too short or models that break."""

import math

import numpy as np
import pytest
import torch

from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export.quality import compare, torch_logits, windows_of
from tests.nn.choices import choice_decoder


def table(seed, vocab=11):
    """Logits that depend on the token alone."""
    rows = np.random.default_rng(seed).standard_normal((vocab, vocab)).astype(np.float32)
    return lambda ids: rows[list(ids)]


def text(n=200, vocab=11):
    return np.random.default_rng(5).integers(0, vocab, n).tolist()


def test_the_figures_are_those_of_their_formulas():
    windows = windows_of(text(), 40, 1000)
    assert [len(window) for window in windows] == [40] * 5
    one, two = table(0), table(1)
    found = compare(one, two, windows)
    nats, kl, equal = [], [], []
    for ids in windows:
        p, q = (each(ids)[:-1].astype(np.float64) for each in (one, two))
        p, q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (p, q))
        nats += [-row[token] for row, token in zip(q, ids[1:], strict=True)]
        kl += list((np.exp(p) * (p - q)).sum(-1))
        equal += list(p.argmax(-1) == q.argmax(-1))
    assert found.tokens == len(nats) == 5 * 39
    assert found.perplexity == pytest.approx(math.exp(np.mean(nats)), rel=1e-6)
    assert found.kl == pytest.approx(np.mean(kl), rel=1e-5)
    assert found.top1 == np.mean(equal)


def test_a_model_against_itself_loses_nothing():
    decoder = choice_decoder("gqa")
    ids = text(160, decoder.config.vocab_size)
    logits = torch_logits(decoder)
    found = compare(logits, logits, windows_of(ids, 40, 1000))
    assert (found.loss, found.kl, found.top1) == (0.0, 0.0, 1.0)


def test_a_text_of_a_few_words_is_refused():
    with pytest.raises(EdgeformerError, match="predicts 9 tokens, at least 64"):
        compare(table(0), table(0), windows_of(text(10), 40, 1000))
    with pytest.raises(EdgeformerError, match="predicts 0 tokens"):
        compare(table(0), table(0), windows_of([3], 40, 1000))


def test_logits_that_are_no_numbers_fail_with_the_place():
    def broken(ids):
        logits = table(1)(ids).copy()
        logits[7, 2] = np.inf
        return logits

    with pytest.raises(CheckFailed, match=r"reduced precision gives logits .* token 8"):
        compare(table(0), broken, windows_of(text(), 40, 1000))


def test_a_perplexity_beyond_floats_is_a_large_number():
    def sure(ids):
        logits = np.full((len(ids), 11), -1e4, np.float32)
        logits[:, 0] = 1e4
        return logits

    found = compare(table(0), sure, windows_of(text(), 40, 1000))
    assert math.isfinite(found.perplexity)
    assert found.loss > 100


def test_the_windows_stop_at_the_limit_of_tokens():
    assert [len(w) for w in windows_of(list(range(100)), 16, 40)] == [16, 16]
    assert windows_of(list(range(5)), 16, 40) == [[0, 1, 2, 3, 4]]
    assert torch.tensor(windows_of(list(range(32)), 16, 40)).flatten().tolist() == list(range(32))
