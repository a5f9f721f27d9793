"""What every tokenizer of a bundle can do; encoding a piece of text is left to each kind."""

import re
from typing import Any, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from edgeformer.errors import EdgeformerError
from edgeformer.text.stream import TextStream
from edgeformer.text.words import is_space


class AddedToken(NamedTuple):
    """A token that is matched in the text as a whole, before the text is cut into words.

    special: hidden in decoded text, and found in a text only with allow_special=True.
    early: matched before the tokens that are not (`"normalized": false` in a tokenizer.json).
    lstrip, rstrip: the white space on that side belongs to the token.
    """

    content: str
    token_id: int
    special: bool = True
    early: bool = True
    lstrip: bool = False
    rstrip: bool = False


class Tokenizer:
    """Text to ids and back. Safe to share between threads; a stream is not.

    vocab_size is the largest id + 1. special_tokens maps contents to ids.
    """

    kind = ""

    def __init__(self, token_bytes: List[Optional[bytes]], added: Iterable[AddedToken]) -> None:
        added = list(added)
        self.special_tokens = {token.content: token.token_id for token in added if token.special}
        self._token_bytes = token_bytes  # by id; None: no token has this id
        self._hidden = frozenset(self.special_tokens.values())
        self._by_content = {token.content: token for token in added}
        # Early ones claim their text first, whatever stands around them.
        early = [token.content for token in added if token.early]
        late = [token.content for token in added if not token.early]
        self._matchers = [_any_of(contents) for contents in (early, late) if contents]

    @property
    def vocab_size(self) -> int:
        return len(self._token_bytes)

    def encode(self, text: str, allow_special: bool = False) -> List[int]:
        """The ids of text, nothing added in front or behind.

        "<|endoftext|>" in it is a piece of ordinary text, unless allow_special: whoever typed the
        text must not be able to end it, or to open another speaker's turn.
        """
        _check_text(text)
        ids = []  # type: List[int]
        for start, part in self._cut_at_added_tokens(text, allow_special):
            if isinstance(part, AddedToken):
                ids.append(part.token_id)
            else:
                ids.extend(self._encode_ordinary(part, start))
        return ids

    def decode(self, ids: Iterable[int], show_special: bool = False) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        bytes_of = self._shown_bytes if show_special else self._visible_bytes
        return b"".join([bytes_of(token_id) for token_id in ids]).decode("utf-8", "replace")

    def stream(self, show_special: bool = False) -> TextStream:
        return TextStream(self._shown_bytes if show_special else self._visible_bytes)

    def _encode_ordinary(self, text: str, start: int) -> List[int]:
        """The ids of a stretch without added tokens; start is its place, for errors."""
        raise NotImplementedError

    def _shown_bytes(self, token_id: int) -> bytes:
        found = self._token_bytes[token_id] if 0 <= token_id < self.vocab_size else None
        if found is None:
            raise EdgeformerError(
                "token id %d is not in the tokenizer's vocabulary of %d ids; the model and the "
                "tokenizer do not belong together: export the bundle again with the tokenizer "
                "that the model was trained with" % (token_id, self.vocab_size)
            )
        return found

    def _visible_bytes(self, token_id: int) -> bytes:
        return b"" if token_id in self._hidden else self._shown_bytes(token_id)

    def _cut_at_added_tokens(self, text: str, allow_special: bool) -> List[Tuple[int, Any]]:
        """text as a list of (start, str or AddedToken)."""
        parts = [(0, text)] if text else []  # type: List[Tuple[int, Any]]
        for matcher in self._matchers:
            cut = []  # type: List[Tuple[int, Any]]
            for start, part in parts:
                if isinstance(part, AddedToken):
                    cut.append((start, part))
                else:
                    for offset, piece in self._cut_once(part, matcher, allow_special):
                        cut.append((start + offset, piece))
            parts = cut
        return parts

    def _cut_once(self, text: str, matcher: Any, allow_special: bool) -> Iterator[Tuple[int, Any]]:
        done = 0
        for match in matcher.finditer(text):
            token = self._by_content[match.group()]
            if token.special and not allow_special:
                continue
            start, end = match.span()
            while token.lstrip and start > done and is_space(text[start - 1]):
                start -= 1
            while token.rstrip and end < len(text) and is_space(text[end]):
                end += 1
            if token.lstrip and end <= done:
                continue  # white space itself, and the token before it has taken it
            if done < start:
                yield done, text[done:start]
            yield start, token
            done = end
        if done < len(text):
            yield done, text[done:]


def _any_of(contents: List[str]):
    """A pattern that finds the longest of contents at the leftmost place."""
    return re.compile("|".join(re.escape(one) for one in sorted(contents, key=len, reverse=True)))


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise EdgeformerError(
            "encode takes text (str), not %s; decode bytes first: data.decode('utf-8')"
            % type(text).__name__
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EdgeformerError(
            "character %d of the text is U+%04X, half of a surrogate pair, and no text; a terminal "
            "that is not set to UTF-8 makes these: run `export LC_ALL=C.UTF-8` and try again"
            % (error.start + 1, ord(text[error.start]))
        ) from None
