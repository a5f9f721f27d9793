"""Byte-pair encoding: the ids of Hugging Face `tokenizers`, without it."""

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional

from edgeformer.text.byte_letters import LETTER_OF, spelled
from edgeformer.text.fields import refusal
from edgeformer.text.merge import ID_BITS, Merges, merge_pairs
from edgeformer.text.packed import PackedMerges, PackedTokens, PackedVocab
from edgeformer.text.parts import Part
from edgeformer.text.vocabulary import Vocab, fallback_ids, read_vocab, unknown_id


class Spelling(NamedTuple):
    """How the characters of a word become its first ids.

    prefix: in front of every character but the first; suffix: behind the last.
    bytes: ids of the bytes, for a character that has none, or None.
    unknown: the id for all else, or None: it is left out. fuse: one for many in a row.
    """

    prefix: str = ""
    suffix: str = ""
    bytes: Optional[List[Optional[int]]] = None
    unknown: Optional[int] = None
    fuse: bool = False


class Bpe:
    """spells: words come as text and are first written in byte letters.

    whole_words: a word that is a token is this token, however its merges would end; but `special`.
    """

    def __init__(
        self,
        vocab: Vocab,
        merges: Merges,
        spelling: Spelling,
        spells: bool,
        whole_words: bool,
        special: FrozenSet[str],
    ) -> None:
        self.vocab = PackedVocab(vocab)
        self._characters = {token: vocab[token] for token in vocab if len(token) == 1}
        self._merges = PackedMerges(merges)
        self._special = special
        self._spelling = spelling
        self._affixes = bool(spelling.prefix or spelling.suffix)
        self._spells = spells
        self._whole_words = whole_words

    def tokens(self, count: int) -> PackedTokens:
        return PackedTokens(self.vocab, count)

    def ids(self, word: str) -> List[int]:
        if self._spells:
            word = spelled(word)
        if self._whole_words and word not in self._special:
            found = self.vocab.get(word)
            if found is not None:
                return [found]
        find = self._characters.get
        ids = [find(character) for character in word]
        if self._affixes or None in ids:
            ids = self._ids_one_by_one(word)
        return merge_pairs(ids, self._merges)

    def _ids_one_by_one(self, word: str) -> List[int]:
        spelling = self._spelling
        ids: List[int] = []
        unknown: List[int] = []  # waits for the next known character, behind any bytes
        for index, character in enumerate(word):
            if index:
                character = spelling.prefix + character
            if index == len(word) - 1:
                character += spelling.suffix
            found = self.vocab.get(character)
            if found is not None:
                ids += unknown + [found]
                unknown = []
                continue
            if spelling.bytes is not None:
                found_bytes = [spelling.bytes[byte] for byte in character.encode("utf-8")]
                if None not in found_bytes:
                    ids += found_bytes
                    continue
            if spelling.unknown is None:
                continue
            if unknown and not spelling.fuse:
                ids += unknown
            unknown = [spelling.unknown]
        return ids + unknown


def read_bpe(model: Dict[str, Any], path: str, spells: bool, special: FrozenSet[str]) -> Bpe:
    # Files from before tokenizers 0.10 do not name the type of their model.
    part = Part(dict(model, type="BPE"), "model", path)
    vocab = read_vocab(part.take("vocab"), path)
    prefix = part.optional_text("continuing_subword_prefix")
    merges = _read_merges(part.take("merges"), vocab, len(prefix), special, path)
    if part.take("dropout") not in (None, 0):
        raise part.unknown("dropout: its ids differ every time")
    unk_token = part.take("unk_token")
    if spells and not (isinstance(unk_token, str) and unk_token in vocab):
        unk_token = None  # every byte has a token: it is never needed
    spelling = Spelling(
        prefix,
        part.optional_text("end_of_word_suffix"),
        fallback_ids(vocab) if part.optional_flag("byte_fallback") else None,
        None if unk_token is None else unknown_id(unk_token, vocab, path),
        bool(part.optional_flag("fuse_unk")),
    )
    whole_words = bool(part.optional_flag("ignore_merges"))
    part.finish()
    if spells:
        _check_bytes(vocab, path)
    return Bpe(vocab, merges, spelling, spells, whole_words, special)


def _read_merges(
    written: Any, vocab: Vocab, prefix: int, special: FrozenSet[str], path: str
) -> Merges:
    """Merges are written as "a b" by older versions of `tokenizers`, as ["a", "b"] by newer.

    prefix: the length of what the right one has in front and the result has not.
    """
    if not isinstance(written, list):
        raise refusal(path, "model.merges is not a list")
    merges: Merges = {}
    for rank, pair in enumerate(written):
        # There may be half a million: what is wrong is looked for only where something is.
        try:
            left, right = pair if type(pair) is list else pair.split(" ")
            token = left + right[prefix:]
            merged = rank << ID_BITS | vocab[token]
            if token not in special:
                merges[vocab[left] << ID_BITS | vocab[right]] = merged
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise refusal(path, "merge %d %s" % (rank, _wrong_with(pair, error))) from None
    return merges


def _wrong_with(pair: Any, error: Exception) -> str:
    if isinstance(error, KeyError) and isinstance(error.args[0], str):
        return "needs %.60r, not in its vocabulary" % error.args[0]
    return "is %.60r, not a pair of tokens" % (pair,)


def _check_bytes(vocab: Vocab, path: str) -> None:
    for byte in range(256):
        # The others begin control characters and planes without letters, or stand in no valid
        # text. Vocabularies leave some out, and what has no token is lost with the reference too.
        in_text = byte in b"\t\n\r" or (0x20 <= byte < 0xF1 and byte not in (0x7F, 0xC0, 0xC1))
        if in_text and LETTER_OF[byte] not in vocab:
            raise refusal(path, "its vocabulary lacks byte 0x%02X: text would be lost" % byte)
