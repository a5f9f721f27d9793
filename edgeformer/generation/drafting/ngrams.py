"""Drafts from an n-gram model: the likeliest token behind the longest context that a text had."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgeformer.generation.drafting import Drafter, Rate

BITS = 21  # of a token in a key: three of them are one number of 64 bits
LONGEST = 3  # tokens of a context
BORDERS = (0.3, 0.5, 0.7, 0.85, 1.0)  # classes of how often a context's likeliest token came


class Contexts(NamedTuple):
    """Contexts of one length, by rising keys."""

    keys: np.ndarray  # uint64 [N]
    likeliest: np.ndarray  # int32 [N]: the token that came most often behind it
    hits: np.ndarray  # int32 [N]: how often that was
    all: np.ndarray  # int32 [N]: how often the context was there


class Ngrams:
    """Contexts of 1 to 3 tokens. Where the longer one was never seen, the shorter one is asked."""

    def __init__(self, lengths: Sequence[Contexts]) -> None:
        self.lengths = tuple(lengths)
        self._known: Dict[Tuple[int, ...], Optional[Tuple[int, int, float]]] = {}

    def after(self, context: Tuple[int, ...]) -> Optional[Tuple[int, int, float]]:
        """The likeliest next token, the length of context that says so, and its share there."""
        if context not in self._known:
            if len(self._known) > 1 << 16:
                self._known.clear()
            self._known[context] = self._find(context)
        return self._known[context]

    def _find(self, context: Tuple[int, ...]) -> Optional[Tuple[int, int, float]]:
        for length in range(min(len(context), len(self.lengths)), 0, -1):
            contexts = self.lengths[length - 1]
            key = np.uint64(key_of(context[-length:]))
            at = int(np.searchsorted(contexts.keys, key))
            if at < len(contexts.keys) and contexts.keys[at] == key:
                # One more than was seen: what was seen once is not certain.
                share = int(contexts.hits[at]) / (int(contexts.all[at]) + 1)
                return int(contexts.likeliest[at]), length, share
        return None


def key_of(tokens: Sequence[int]) -> int:
    key = 0
    for token in tokens:
        key = key << BITS | token
    return key


def count_ngrams(ids: np.ndarray, most: int) -> List[Contexts]:
    """The contexts of a text: of each length the `most` that were there most often."""
    return [_contexts(ids.astype(np.uint64), length, most) for length in range(1, LONGEST + 1)]


def _contexts(ids: np.ndarray, length: int, most: int) -> Contexts:
    count = max(0, len(ids) - length)
    keys = np.zeros(count, np.uint64)
    for index in range(length):
        keys = keys << np.uint64(BITS) | ids[index : index + count]
    found, which, totals = np.unique(keys, return_inverse=True, return_counts=True)
    # Contexts as their numbers, so that context and token are one number of 64 bits again.
    pairs = which.reshape(-1).astype(np.uint64) << np.uint64(BITS) | ids[length:]
    pairs, hits = np.unique(pairs, return_counts=True)
    contexts = (pairs >> np.uint64(BITS)).astype(np.int64)
    # By context, then by falling count, then by token: the first of each context is its likeliest.
    order = np.lexsort((-hits, contexts))
    first = order[np.searchsorted(contexts[order], np.arange(len(found)))]
    likeliest = (pairs[first] & np.uint64((1 << BITS) - 1)).astype(np.int32)
    kept = np.arange(len(found))
    if len(found) > most:
        kept = np.sort(np.argsort(-totals, kind="stable")[:most])
    return Contexts(
        found[kept],
        likeliest[kept],
        hits[first][kept].astype(np.int32),
        totals[kept].astype(np.int32),
    )


class NgramDrafter(Drafter):
    """Follows the model's likeliest tokens, and counts how right they are in this very text."""

    def __init__(self, ngrams: Ngrams) -> None:
        self._ngrams = ngrams
        self._last: Tuple[int, ...] = ()
        # By length of context and share: what the model's own text says, until counts say more.
        self._rates = [[Rate(border - 0.15) for border in BORDERS] for _ in range(LONGEST)]
        self._drafted: List[int] = []

    def begin(self, ids: Sequence[int]) -> None:
        self._last = tuple(ids[-LONGEST:])

    def extend(self, token: int) -> None:
        found = self._ngrams.after(self._last)
        if found is not None:
            self._rate(found).count(found[0] == token)
        self._last = (self._last + (token,))[-LONGEST:]

    def chances(self, most: int) -> List[float]:
        context, chances, so_far = self._last, [], 1.0
        self._drafted = []
        while len(chances) < most and so_far > 0.1:
            found = self._ngrams.after(context)
            if found is None:
                break
            chances.append(self._rate(found).value)
            so_far *= chances[-1]
            self._drafted.append(found[0])
            context = (context + (found[0],))[-LONGEST:]
        return chances

    def draft(self, count: int) -> List[int]:
        return self._drafted[:count]

    def _rate(self, found: Tuple[int, int, float]) -> Rate:
        _, length, share = found
        index = next(index for index, border in enumerate(BORDERS) if share <= border)
        return self._rates[length - 1][index]
