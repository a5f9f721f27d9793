"""What rules need to know of a text: counted as it grows, never again from its start."""

from array import array
from typing import Dict, List, Sequence, Tuple

import numpy as np


class Counted:
    """The distinct tokens of a text in order of appearance, and how often each is in it."""

    def __init__(self, vocabulary: int) -> None:
        self._counts = np.zeros(vocabulary, np.int64)
        self._order = np.zeros(64, np.int64)
        self._distinct = 0

    @property
    def ids(self) -> np.ndarray:
        return self._order[: self._distinct]

    @property
    def counts(self) -> np.ndarray:
        return self._counts[self.ids]

    def push(self, token: int) -> None:
        self._counts[token] += 1
        if self._counts[token] == 1:
            if self._distinct == len(self._order):
                self._order = np.concatenate([self._order, np.zeros_like(self._order)])
            self._order[self._distinct] = token
            self._distinct += 1

    def pop(self, token: int) -> None:
        """Take back the last push."""
        self._counts[token] -= 1
        if self._counts[token] == 0:
            self._distinct -= 1


class Ngrams:
    """Which tokens followed each n - 1 tokens of a text."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._followed: Dict[Tuple[int, ...], array] = {}

    def push(self, ids: Sequence[int], length: int) -> None:
        """Count in the n-gram that ends with the token at length - 1."""
        if length >= self._n:
            key = tuple(ids[length - self._n : length - 1])
            self._followed.setdefault(key, array("q")).append(ids[length - 1])

    def pop(self, ids: Sequence[int], length: int) -> None:
        """Take back the last push, by the same arguments."""
        if length >= self._n:
            key = tuple(ids[length - self._n : length - 1])
            self._followed[key].pop()

    def after(self, ids: Sequence[int]) -> np.ndarray:
        """Tokens that came after what the text now ends with."""
        if len(ids) < self._n - 1:
            return np.zeros(0, np.int64)
        key = tuple(ids[len(ids) - self._n + 1 :])
        return np.array(self._followed.get(key, ()), np.int64)


class History:
    """The counts of one text. `follow` brings them to its present state.

    A text only grows, or is cut back and grows on. That is seen where it is now shorter, or has
    another token where it ended. A text that changed otherwise needs a History of its own.
    """

    def __init__(self, vocabulary: int, prompt: int, ngram: int) -> None:
        """`prompt`: the first so many tokens are no answer. `ngram` 0: no n-grams are wanted."""
        self._prompt = prompt
        self._seen: List[int] = []
        self.text = Counted(vocabulary)
        self.answer = Counted(vocabulary)
        self.ngrams = Ngrams(ngram) if ngram else None

    def follow(self, ids: Sequence[int]) -> None:
        seen = self._seen
        if len(ids) < len(seen) or (seen and ids[len(seen) - 1] != seen[-1]):
            kept = _common(seen, ids)
            while len(seen) > kept:
                self._pop()
        for token in ids[len(seen) :]:
            self._push(token)

    def _push(self, token: int) -> None:
        self._seen.append(token)
        length = len(self._seen)
        self.text.push(token)
        if length > self._prompt:
            self.answer.push(token)
        if self.ngrams is not None:
            self.ngrams.push(self._seen, length)

    def _pop(self) -> None:
        length = len(self._seen)
        if self.ngrams is not None:
            self.ngrams.pop(self._seen, length)
        token = self._seen.pop()
        self.text.pop(token)
        if length > self._prompt:
            self.answer.pop(token)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts begin with alike."""
    length = min(len(one), len(other))
    if list(one[:length]) == list(other[:length]):
        return length
    return next(index for index in range(length) if one[index] != other[index])
