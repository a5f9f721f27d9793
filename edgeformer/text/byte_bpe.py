"""Byte-level byte-pair encoding: the ids of Hugging Face `tokenizers`, without it."""

from typing import Dict, Iterable, List, Optional, Tuple

from edgeformer.text.merge import Merge, merge_pairs
from edgeformer.text.tokenizer import AddedToken, Tokenizer
from edgeformer.text.words import split_words

# A text repeats its words; longer pieces rarely come twice.
_CACHED_WORDS = 1 << 15
_CACHED_LENGTH = 64


class ByteBpe(Tokenizer):
    """byte_ids: the id of each byte's own token, -1 for bytes that no valid text holds.

    whole_words: words that are one token, however their merges would end (`ignore_merges`).
    add_prefix_space: a text that does not begin with a space gets one, after an added token too.
    split: cut the text into words first; else it is merged as one.
    """

    kind = "byte-bpe"

    def __init__(
        self,
        token_bytes: List[Optional[bytes]],
        added: Iterable[AddedToken],
        byte_ids: List[int],
        merges: Dict[Tuple[int, int], Merge],
        whole_words: Dict[bytes, int],
        add_prefix_space: bool,
        split: bool,
    ) -> None:
        super().__init__(token_bytes, added)
        self._byte_ids = byte_ids
        self._merges = merges
        self._whole_words = whole_words
        self._add_prefix_space = add_prefix_space
        self._split = split
        self._cache = {}  # type: Dict[str, List[int]]

    def _encode_ordinary(self, text: str, start: int) -> List[int]:
        if self._add_prefix_space and not text.startswith(" "):
            text = " " + text
        if not self._split:
            return self._encode_word(text)
        cache = self._cache
        ids = []  # type: List[int]
        for word in split_words(text):
            found = cache.get(word)
            if found is None:
                found = self._encode_word(word)
                if len(word) <= _CACHED_LENGTH:
                    if len(cache) >= _CACHED_WORDS:
                        cache.clear()
                    cache[word] = found
            ids.extend(found)
        return ids

    def _encode_word(self, word: str) -> List[int]:
        raw = word.encode("utf-8")
        if raw in self._whole_words:
            return [self._whole_words[raw]]
        byte_ids = self._byte_ids
        return merge_pairs([byte_ids[byte] for byte in raw], self._merges)
