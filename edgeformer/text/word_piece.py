"""BERT's WordPiece, longest piece first, and the plainest model of all, one id a word."""

from typing import Any, Dict, FrozenSet, List, Optional

from edgeformer.text.parts import Part
from edgeformer.text.vocabulary import Vocab, by_id, ordinary, read_vocab, unknown_id


class WordPiece:
    """prefix: in front of every piece of a word but the first. A word is known whole or not.

    usable: the part of the vocabulary that a text may be made of.
    """

    def __init__(self, vocab: Vocab, usable: Vocab, unknown: int, prefix: str, most: int) -> None:
        self.vocab = vocab
        self._usable = usable
        self._unknown = unknown
        self._prefix = prefix
        self._most = most
        self._longest = max(map(len, vocab))

    def tokens(self, count: int) -> List[Optional[str]]:
        return by_id(self.vocab, count)

    def ids(self, word: str) -> List[int]:
        if len(word) > self._most:
            return [self._unknown]
        ids = []
        start = 0
        while start < len(word):
            prefix = self._prefix if start else ""
            end = min(len(word), start + self._longest)
            while end > start and prefix + word[start:end] not in self._usable:
                end -= 1
            if end == start:
                return [self._unknown]
            ids.append(self._usable[prefix + word[start:end]])
            start = end
        return ids


class WordLevel:
    def __init__(self, vocab: Vocab, usable: Vocab, unknown: int) -> None:
        self.vocab = vocab
        self._usable = usable
        self._unknown = unknown

    def tokens(self, count: int) -> List[Optional[str]]:
        return by_id(self.vocab, count)

    def ids(self, word: str) -> List[int]:
        return [self._usable.get(word, self._unknown)]


def read_word_piece(model: Dict[str, Any], path: str, special: FrozenSet[str]) -> WordPiece:
    part = Part(model, "model", path)
    vocab = read_vocab(part.take("vocab"), path)
    unknown = unknown_id(part.text("unk_token", "[UNK]"), vocab, path)
    most = part.take("max_input_chars_per_word", 100)
    if type(most) is not int or not 0 < most <= 1000:
        raise part.unknown("max_input_chars_per_word = %.40r" % (most,))
    prefix = part.text("continuing_subword_prefix", "##")
    part.finish()
    return WordPiece(vocab, ordinary(vocab, special), unknown, prefix, most)


def read_word_level(model: Dict[str, Any], path: str, special: FrozenSet[str]) -> WordLevel:
    part = Part(model, "model", path)
    vocab = read_vocab(part.take("vocab"), path)
    unknown = unknown_id(part.text("unk_token", "<unk>"), vocab, path)
    part.finish()
    return WordLevel(vocab, ordinary(vocab, special), unknown)
