"""One token a character: the tokenizer of the smallest models."""

from typing import Any, Dict, List, Optional

from edgeformer.errors import EdgeformerError
from edgeformer.text.added_tokens import AddedToken
from edgeformer.text.fields import refusal, text_of, token_id_of
from edgeformer.text.tokenizer import Tokenizer

_KEYS = {"kind", "characters", "special_tokens"}


class CharTokenizer(Tokenizer):
    """Special tokens have the ids given; the characters take the other ids, in order."""

    kind = "char"

    def __init__(self, characters: str, special_tokens: Dict[str, int]) -> None:
        count = len(characters) + len(special_tokens)
        special_ids = set(special_tokens.values())
        free_ids = [token_id for token_id in range(count) if token_id not in special_ids]
        self._id_of = dict(zip(characters, free_ids))

        tokens: List[Optional[str]] = [None] * count
        for text, token_id in list(self._id_of.items()) + list(special_tokens.items()):
            tokens[token_id] = text
        added = [AddedToken(content, token_id) for content, token_id in special_tokens.items()]
        super().__init__(tokens, added, decoder=[])

    def _encode_ordinary(self, text: str, start: int) -> List[int]:
        try:
            return [self._id_of[character] for character in text]
        except KeyError as error:
            unknown = error.args[0]
        raise EdgeformerError(
            "character %r (U+%04X, number %d of the text) is not one of the %d that this model "
            "was trained on; replace it, or train the model again on text that holds it"
            % (unknown, ord(unknown), start + text.index(unknown) + 1, len(self._id_of))
        )


def read_char(document: Dict[str, Any], path: str) -> CharTokenizer:
    """A CharTokenizer from the JSON of its file, checked."""
    if set(document) != _KEYS:
        raise refusal(path, "its keys are %s, not %s" % (sorted(document), sorted(_KEYS)))
    if document["kind"] != "char":
        raise refusal(path, "its kind is %.40r; only 'char' is known" % (document["kind"],))
    characters = text_of(path, document["characters"], "characters")
    if len(set(characters)) != len(characters):
        twice = next(one for one in characters if characters.count(one) > 1)
        raise refusal(path, "the character %r stands twice in characters" % twice)
    special_tokens = document["special_tokens"]
    if not isinstance(special_tokens, dict):
        raise refusal(path, "special_tokens is not an object")
    count = len(characters) + len(special_tokens)
    for content, token_id in special_tokens.items():
        text_of(path, content, "a special token")
        if not content:
            raise refusal(path, "a special token is empty")
        if token_id_of(path, token_id, repr(content)) >= count:
            raise refusal(
                path, "the id of %r is %d, but there are only %d ids" % (content, token_id, count)
            )
    if len(set(special_tokens.values())) != len(special_tokens):
        raise refusal(path, "two special tokens have the same id")
    return CharTokenizer(characters, special_tokens)
