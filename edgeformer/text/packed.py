"""Vocabularies and merges in a few arrays: dicts take several times their memory.

Both are tables with open addressing: what has no place of its own stands in the next free one
before it. Index -1 is the last place, so that no walk has to be sent back to the end.
"""

from array import array
from itertools import accumulate
from typing import Dict, Optional

_FREE = -1


class PackedVocab:
    """From tokens to ids and back; each has one of the other. `count`: the largest id + 1."""

    def __init__(self, vocab: Dict[str, int]) -> None:
        self.count = max(vocab.values()) + 1 if vocab else 0
        spelled = [b""] * self.count
        is_token = self._is_token = bytearray(self.count)
        for token, token_id in vocab.items():
            spelled[token_id] = token.encode("utf-8", "surrogatepass")
            is_token[token_id] = 1
        self._text = b"".join(spelled)
        self._ends = array("I", accumulate(map(len, [b"", *spelled])))
        mask = self._mask = (1 << (2 * len(vocab)).bit_length()) - 1
        places = self._places = array("i", [_FREE]) * (mask + 1)
        for token, token_id in vocab.items():
            place = hash(token) & mask
            while places[place] != _FREE:
                place -= 1
            places[place] = token_id

    def token(self, token_id: int) -> Optional[str]:
        if not (0 <= token_id < self.count and self._is_token[token_id]):
            return None
        spelled = self._text[self._ends[token_id] : self._ends[token_id + 1]]
        return spelled.decode("utf-8", "surrogatepass")

    def get(self, token: str, otherwise: Optional[int] = None) -> Optional[int]:
        spelled = token.encode("utf-8", "surrogatepass")
        size, ends, places = len(spelled), self._ends, self._places
        place = hash(token) & self._mask
        found = places[place]
        while found != _FREE:
            start = ends[found]
            if ends[found + 1] - start == size and self._text.startswith(spelled, start):
                return found
            place -= 1
            found = places[place]
        return otherwise

    def __contains__(self, token: object) -> bool:
        return isinstance(token, str) and self.get(token) is not None

    def __getitem__(self, token: str) -> int:
        found = self.get(token)
        if found is None:
            raise KeyError(token)
        return found


class PackedTokens:
    """What a list of tokens by id would hold: those of a vocabulary, and what was put over them."""

    def __init__(self, vocab: PackedVocab, count: int) -> None:
        self._vocab = vocab
        self._count = max(count, vocab.count)
        self._changed: Dict[int, str] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, token_id: int) -> Optional[str]:
        found = self._changed.get(token_id)
        return self._vocab.token(token_id) if found is None else found

    def __setitem__(self, token_id: int, token: str) -> None:
        self._changed[token_id] = token


class PackedMerges:
    """From pairs to merges, both numbers from 0; -1 for a pair that is not merged.

    An odd number of places, so that the remainder mixes in the left id, which is in the upper bits.
    """

    def __init__(self, merges: Dict[int, int]) -> None:
        size = self._size = 2 * len(merges) + 1
        pairs = self._pairs = array("q", [_FREE]) * size
        self._merges = array("q", [_FREE]) * size
        for pair, merge in merges.items():
            place = pair % size
            while pairs[place] != _FREE:
                place -= 1
            pairs[place] = pair
            self._merges[place] = merge

    def get(self, pair: int) -> int:
        pairs = self._pairs
        place = pair % self._size
        found = pairs[place]
        while found != pair:
            if found == _FREE:
                return _FREE
            place -= 1
            found = pairs[place]
        return self._merges[place]
