"""Counts that follow a text, against counts of the whole text."""

import numpy as np
import pytest

from edgeformer.generation.history import History


def check(history, ids, prompt, n):
    history.follow(ids)
    for counted, part in ((history.text, ids), (history.answer, ids[prompt:])):
        assert counted.ids.tolist() == list(dict.fromkeys(part))
        assert counted.counts.tolist() == [part.count(token) for token in dict.fromkeys(part)]
    end = ids[len(ids) - n + 1 :]
    wanted = [ids[i + n - 1] for i in range(len(ids) - n + 1) if ids[i : i + n - 1] == end]
    if len(ids) >= n - 1:
        assert history.ngrams.after(ids).tolist() == wanted


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_text_that_grows_and_is_cut_back_is_counted_right(n, seed):
    source = np.random.RandomState(seed)
    prompt, ids = 5, source.randint(0, 6, 5).tolist()
    history = History(6, prompt, n)
    for _ in range(60):
        action = source.randint(0, 3)
        if action == 0:
            ids = ids[: max(0, len(ids) - source.randint(0, 9))]  # into the prompt too
        ids = ids + source.randint(0, 6, source.randint(0, 5)).tolist() if action else ids
        check(history, ids, prompt, n)


def test_another_last_token_of_a_draft_takes_the_first_ones_place():
    history = History(9, 1, 2)
    for draft in ([3, 4, 5], [3, 4, 6], [7], [7, 4, 5, 8], [3]):
        check(history, [1, 2] + draft, 1, 2)


def test_more_than_64_distinct_tokens_are_counted():
    history = History(1000, 0, 2)
    for length in (1, 63, 64, 65, 500, 129, 999):
        check(history, list(range(length)), 0, 2)
