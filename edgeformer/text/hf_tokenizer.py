"""A tokenizer as Hugging Face's files describe one: normalize, cut into words, ids of each word."""

from typing import Any, Dict, List

from edgeformer.text.pre_tokenizers import PreTokenizer
from edgeformer.text.tokenizer import Tokenizer

# A text repeats its words; longer pieces rarely come twice.
_CACHED_WORDS = 1 << 15
_CACHED_LENGTH = 64


class HfTokenizer(Tokenizer):
    """model: has ids(word)."""

    def __init__(self, kind: str, pre_tokenizer: PreTokenizer, model: Any, **others: Any) -> None:
        super().__init__(**others)
        self.kind = kind
        self._pre_tokenizer = pre_tokenizer
        self._model = model
        self._cache: Dict[str, List[int]] = {}

    def _encode_ordinary(self, text: str, start: int) -> List[int]:
        cache = self._cache
        ids: List[int] = []
        for word in self._pre_tokenizer.words(text, start == 0):
            found = cache.get(word)
            if found is None:
                found = self._model.ids(word)
                if len(word) <= _CACHED_LENGTH:
                    if len(cache) >= _CACHED_WORDS:
                        cache.clear()
                    cache[word] = found
            ids.extend(found)
        return ids
