"""SentencePiece's unigram model: of all ways to cut a text into pieces, the likeliest."""

import math
from typing import Any, Dict, FrozenSet, List, Optional

from edgeformer.text.fields import refusal, text_of
from edgeformer.text.parts import Part
from edgeformer.text.vocabulary import Vocab, fallback_ids, ordinary

_UNKNOWN_PENALTY = 10.0


class Unigram:
    """pieces, with scores that are logarithms of likelihoods, by id. unknown: what is no piece."""

    def __init__(
        self,
        pieces: List[str],
        scores: List[float],
        unknown: Optional[int],
        byte_fallback: bool,
        special: FrozenSet[str],
        path: str,
    ) -> None:
        self._pieces = pieces
        self.vocab: Vocab = {piece: index for index, piece in enumerate(pieces)}
        self._usable = ordinary(self.vocab, special)
        self._scores = scores
        self._unknown = unknown
        self._unknown_score = min(scores) - _UNKNOWN_PENALTY
        self._bytes = fallback_ids(self.vocab) if byte_fallback else None
        self._path = path
        self._lengths: Dict[str, List[int]] = {}  # of the pieces that begin with a character
        lengths: Dict[str, set] = {}
        for piece in self._usable:
            lengths.setdefault(piece[:1], set()).add(len(piece))
        self._lengths = {first: sorted(found) for first, found in lengths.items()}

    def tokens(self, count: int) -> List[Optional[str]]:
        return self._pieces + [None] * (count - len(self._pieces))

    def ids(self, word: str) -> List[int]:
        ids: List[int] = []
        for piece in self._best(word):
            found = self._usable.get(piece)
            if found is not None:
                ids.append(found)
                continue
            if self._bytes is not None:
                found_bytes = [self._bytes[byte] for byte in piece.encode("utf-8")]
                if None not in found_bytes:
                    ids += found_bytes
                    continue
            ids.append(self._known(self._unknown))
        return ids

    def _best(self, word: str) -> List[str]:
        """Best first: what is unknown is one piece, however long."""
        size = len(word)
        best = [0.0] * (size + 1)  # score of the best way to each place
        came_from = [-1] * (size + 1)
        known = [False] * (size + 1)  # whether a piece of the vocabulary ends there
        for start in range(size):
            score = best[start]
            has_single = False
            for length in self._lengths.get(word[start], ()):
                end = start + length
                if end > size:
                    break
                piece = self._usable.get(word[start:end])
                if piece is None:
                    continue
                has_single = has_single or length == 1
                total = self._scores[piece] + score
                if came_from[end] < 0 or total > best[end]:
                    best[end], came_from[end], known[end] = total, start, piece != self._unknown
            if not has_single:
                end = start + 1
                total = self._unknown_score + score
                if came_from[end] < 0 or total > best[end]:
                    self._known(self._unknown)
                    best[end], came_from[end], known[end] = total, start, False
        pieces: List[str] = []
        end = size
        fused = size  # where the unknown stretch ends that is being walked through
        while end > 0:
            start = came_from[end]
            if known[end]:
                if fused > end:
                    pieces.append(word[end:fused])
                pieces.append(word[start:end])
                fused = start
            end = start
        if fused > 0:
            pieces.append(word[:fused])
        return pieces[::-1]

    def _known(self, unknown: Optional[int]) -> int:
        if unknown is None:
            raise refusal(self._path, "the text holds a character that its vocabulary lacks")
        return unknown


def read_unigram(model: Dict[str, Any], path: str, special: FrozenSet[str]) -> Unigram:
    part = Part(model, "model", path)
    written = part.take("vocab")
    if not isinstance(written, list) or not written:
        raise refusal(path, "model.vocab is not a list of pieces with their scores")
    pieces, scores = [], []
    for token_id, entry in enumerate(written):
        if not (isinstance(entry, list) and len(entry) == 2):
            raise refusal(path, "piece %d is %.60r, not a text and a score" % (token_id, entry))
        piece, score = entry
        text_of(path, piece, "piece %d" % token_id)
        if type(score) not in (int, float) or not math.isfinite(score):
            raise refusal(path, "the score of piece %d is %.40r" % (token_id, score))
        pieces.append(piece)
        scores.append(_as_the_reference_reads(score))
    unknown = part.take("unk_id")
    if unknown is not None and (type(unknown) is not int or not 0 <= unknown < len(scores)):
        raise refusal(path, "model.unk_id is %.40r; there are %d pieces" % (unknown, len(scores)))
    byte_fallback = bool(part.optional_flag("byte_fallback"))
    part.finish()
    return Unigram(pieces, scores, unknown, byte_fallback, special, path)


def _as_the_reference_reads(score: float) -> float:
    """Its JSON reader rounds twice, so that one score in seven differs in the last bit.

    It matters: "..." as "." and ".." or the other way round is equally likely but for rounding.
    """
    digits, _, exponent = repr(float(score)).partition("e")
    whole, _, fraction = digits.partition(".")
    power = int(exponent or 0) - len(fraction)
    value = float(int(whole + fraction))
    if power < 0:
        return value / float("1e%d" % -power)
    return value * float("1e%d" % power)
