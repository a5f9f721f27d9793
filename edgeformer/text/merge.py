"""The merge loop of byte-pair encoding.

Merges lead from pairs to results, each one number: a vocabulary of half a million merges
needs half the memory and half the time to load that tuples would.
"""

from heapq import heapify, heappop, heappush
from typing import Dict, List, Sequence

from edgeformer.text.packed import PackedMerges

ID_BITS = 22
_ID = (1 << ID_BITS) - 1
_GONE = -1

Merges = Dict[int, int]


def pair_of(left: int, right: int) -> int:
    return left << ID_BITS | right


def merge_of(rank: int, token: int) -> int:
    """Smaller ranks merge first; token is what the pair becomes."""
    return rank << ID_BITS | token


def merge_pairs(tokens: Sequence[int], merges: PackedMerges) -> List[int]:
    """Merge the pair of the lowest rank, the leftmost of equals, until none is left.

    A heap over a linked list: n log n, because one word may be a whole text of 100,000 characters.
    """
    tokens = list(tokens)
    count = len(tokens)
    find = merges.get
    following = list(range(1, count + 1))  # count = none
    preceding = list(range(-1, count - 1))  # -1 = none

    candidates = []  # (merge, position of the left token, the pair)
    for position, (left, right) in enumerate(zip(tokens, tokens[1:])):
        pair = left << ID_BITS | right
        merge = find(pair)
        if merge >= 0:
            candidates.append((merge, position, pair))
    heapify(candidates)

    while candidates:
        merge, position, pair = heappop(candidates)
        if tokens[position] != pair >> ID_BITS:
            continue
        # A token only grows: with the left one unchanged, this is still its neighbour of then.
        other = following[position]
        if tokens[other] != pair & _ID:
            continue
        tokens[position] = merge & _ID
        tokens[other] = _GONE
        after = following[position] = following[other]
        if after < count:
            preceding[after] = position
        for start, end in ((preceding[position], position), (position, after)):
            if start >= 0 and end < count:
                pair = tokens[start] << ID_BITS | tokens[end]
                merge = find(pair)
                if merge >= 0:
                    heappush(candidates, (merge, start, pair))

    return [token for token in tokens if token != _GONE]
