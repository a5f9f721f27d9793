"""Drafts from the text itself: what followed the last tokens when they stood there before."""

from typing import Dict, List, Optional, Sequence

from edgeformer.generation.drafting import Drafter, Rate

SIZES = (1, 2, 3, 4)  # tokens that are looked up
BITS = 32  # of a token in a key: numbers need less memory than tuples, and no garbage collection
# Longest agreement so far, and how likely one token more agrees before anything is known. Copies
# and mere repetitions of a word differ in this length, and each stream counts its own shares.
CLASSES = (
    (1, 0.1),
    (2, 0.3),
    (3, 0.5),
    (4, 0.65),
    (6, 0.8),
    (9, 0.88),
    (14, 0.92),
    (1 << 30, 0.95),
)


class Lookup(Drafter):
    """Follows one earlier place of the text for as long as it agrees, then looks for another.

    Every token is guessed, also when no draft pays: so the shares are learned for nothing.
    """

    def __init__(self) -> None:
        self._ids: List[int] = []
        self._keys: List[int] = []  # of the last tokens, by their number
        self._after: Dict[int, int] = {}  # key -> where the token behind these stands
        self._source: Optional[int] = None  # where the guess for the next token stands
        self._length = 0  # tokens before it that agree
        self._rates = [Rate(before) for _, before in CLASSES]

    def begin(self, ids: Sequence[int]) -> None:
        for token in ids:
            self._append(token)
        self._find()

    def extend(self, token: int) -> None:
        hit = False
        if self._source is not None:
            hit = self._ids[self._source] == token
            self._rate(self._length).count(hit)
        self._append(token)
        if hit:
            self._source += 1
            self._length += 1
        else:
            self._find()

    def chances(self, most: int) -> List[float]:
        if self._source is None:
            return []
        return [self._rate(self._length + ahead).value for ahead in range(most)]

    def draft(self, count: int) -> List[int]:
        # The text may be a loop that runs into its own end.
        ids, start = self._ids, self._source
        period = len(ids) - start
        return [ids[start + ahead % period] for ahead in range(count)]

    def _append(self, token: int) -> None:
        ids = self._ids
        for key in self._keys:
            self._after[key] = len(ids)
        ids.append(token)
        self._keys = []
        key = 0
        for size in SIZES[: len(ids)]:
            key |= (ids[-size] + 1) << (BITS * (size - 1))
            self._keys.append(key)

    def _find(self) -> None:
        for size in range(len(self._keys), 0, -1):
            found = self._after.get(self._keys[size - 1])
            if found is not None:
                self._source, self._length = found, size
                return
        self._source, self._length = None, 0

    def _rate(self, length: int) -> Rate:
        for rate, (longest, _) in zip(self._rates, CLASSES):
            if length <= longest:
                return rate
        raise AssertionError(length)
