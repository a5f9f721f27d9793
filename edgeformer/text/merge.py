"""The merge loop of byte-pair encoding."""

from heapq import heapify, heappop, heappush
from typing import Dict, List, NamedTuple, Tuple

_GONE = -1


class Merge(NamedTuple):
    """rank: smaller merges first; token: the id that the pair becomes."""

    rank: int
    token: int


def merge_pairs(tokens: List[int], merges: Dict[Tuple[int, int], Merge]) -> List[int]:
    """Merge the pair of the lowest rank, the leftmost of equals, until none is left.

    A heap over a linked list: n log n, because one word may be a whole text of 100,000 characters.
    """
    tokens = list(tokens)
    count = len(tokens)
    following = list(range(1, count + 1))  # count = none
    preceding = list(range(-1, count - 1))  # -1 = none

    candidates = []  # (rank, position of the left token, its id, the right one's id)
    for position, pair in enumerate(zip(tokens, tokens[1:])):
        if pair in merges:
            candidates.append((merges[pair].rank, position) + pair)
    heapify(candidates)

    while candidates:
        _, position, left, right = heappop(candidates)
        if tokens[position] != left:
            continue
        # A token only grows: with the left one unchanged, this is still its neighbour of then.
        other = following[position]
        if tokens[other] != right:
            continue
        tokens[position] = merges[left, right].token
        tokens[other] = _GONE
        after = following[position] = following[other]
        if after < count:
            preceding[after] = position
        for start, end in ((preceding[position], position), (position, after)):
            if start >= 0 and end < count:
                pair = (tokens[start], tokens[end])
                if pair in merges:
                    heappush(candidates, (merges[pair].rank, start) + pair)

    return [token for token in tokens if token != _GONE]
