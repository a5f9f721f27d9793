"""Drafts: what may come next is guessed cheaply, and one step of the model scores all of it."""

from typing import List, Sequence


class Drafter:
    """Guesses how one text goes on. It is told each token of it, and costs the same at each."""

    # What a drafted token costs, in steps of one token of the model that it drafts for.
    unit = 0.0

    def begin(self, ids: Sequence[int]) -> None:
        """The text so far: prompt and first token."""
        raise NotImplementedError

    def extend(self, token: int) -> None:
        """The text goes on with this token, drafted or not."""
        raise NotImplementedError

    def chances(self, most: int) -> List[float]:
        """How likely each of the next tokens is right, if those before it are; `most` of them or
        fewer, [] where nothing is known."""
        raise NotImplementedError

    def draft(self, count: int) -> List[int]:
        """The next tokens, no more than `chances` gave."""
        raise NotImplementedError


class Rate:
    """A share that is counted, and follows what it counts: old counts fade."""

    MOST = 32.0  # counts that are remembered

    def __init__(self, before: float, weight: float = 2.0) -> None:
        self._hits, self._all = before * weight, weight

    @property
    def value(self) -> float:
        return self._hits / self._all

    def count(self, hit: bool) -> None:
        if self._all >= self.MOST:
            self._hits, self._all = self._hits / 2, self._all / 2
        self._hits += hit
        self._all += 1
