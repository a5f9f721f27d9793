"""Drafts: what may come next is guessed cheaply, and one step of the model scores all of it."""

from typing import List, NamedTuple, Sequence, Tuple

GAIN = 1.1  # less than this is left: guesses of chances are rough
LEAST = 0.02  # a token that is less likely than this ends a draft


class Cost(NamedTuple):
    """A step of n > 1 tokens takes `two` + (n - 2) * `more` steps of one token."""

    two: float
    more: float
    most: int  # tokens that a step may verify

    def of(self, tokens: int) -> float:
        return 1.0 if tokens == 1 else self.two + (tokens - 2) * self.more


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

    def best(self, most: int, cost: Cost) -> Tuple[int, float]:
        """The number of tokens to draft, of at most so many, that gives the most tokens for the
        time, and how many times plain decoding's that is; (0, GAIN) where none pays."""
        best, most_for_time = 0, GAIN
        expected, so_far = 1.0, 1.0
        for count, chance in enumerate(self.chances(most), 1):
            so_far *= chance
            if so_far < LEAST:
                break
            expected += so_far
            for_time = expected / (cost.of(count + 1) + count * self.unit)
            if for_time > most_for_time:
                best, most_for_time = count, for_time
        return best, most_for_time

    def draft(self, count: int) -> List[int]:
        """The next tokens, no more than `chances` gave, or `best` said."""
        raise NotImplementedError


class Either(Drafter):
    """Of several drafters, at each token the one that gives the most for its time."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = drafters
        self._chosen = drafters[0]

    def begin(self, ids: Sequence[int]) -> None:
        for drafter in self._drafters:
            drafter.begin(ids)

    def extend(self, token: int) -> None:
        for drafter in self._drafters:
            drafter.extend(token)

    def best(self, most: int, cost: Cost) -> Tuple[int, float]:
        found = [drafter.best(most, cost) for drafter in self._drafters]
        chosen = max(range(len(found)), key=lambda index: found[index][1])
        self._chosen = self._drafters[chosen]
        return found[chosen]

    def draft(self, count: int) -> List[int]:
        return self._chosen.draft(count)


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
