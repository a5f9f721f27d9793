"""What every tokenizer of a bundle can do; encoding a piece of text is left to each kind."""

from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from edgeformer.errors import EdgeformerError
from edgeformer.text.added_tokens import AddedToken, Finder, Part
from edgeformer.text.post_processors import Frame
from edgeformer.text.stages import NewStage, Stage
from edgeformer.text.stream import TextStream, end_of, push_through, start_stages

Normalize = Callable[[str], str]


class Tokenizer:
    """Text to ids and back. Safe to share between threads; a stream is not.

    vocab_size is the largest id + 1. special_tokens maps contents to ids. begin_ids and end_ids
    are what the reference puts around a text by itself; encode does so only if asked to.
    """

    kind = ""

    def __init__(
        self,
        tokens: List[Optional[str]],
        added: Iterable[AddedToken],
        decoder: List[NewStage],
        normalize: Optional[Normalize] = None,
        frame: Optional[Frame] = None,
    ) -> None:
        """tokens: by id, as the vocabulary writes them; None where no token has this id."""
        added = list(added)
        self._flags = {token.content: token for token in added if token.special}
        self.special_tokens = {token.content: token.token_id for token in added if token.special}
        self.begin_ids, self.end_ids = frame or Frame()
        self._tokens = tokens
        self._decoder = decoder
        self._normalize = normalize
        self._hidden = frozenset(self.special_tokens.values())
        self._known: Dict[int, str] = {}  # texts of ids that a stream has met
        self._known_all: Dict[int, str] = {}  # ... where special tokens are shown
        self._early = Finder([(token.content, token) for token in added if token.early])
        late = [(self._normalized(token.content), token) for token in added if not token.early]
        late = [(content, token) for content, token in late if content]
        self._late = Finder(late)
        for content, token in late:
            tokens[token.token_id] = content  # the reference, too, shows them as they are found

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    def encode(self, text: str, allow_special: bool = False, framed: bool = False) -> List[int]:
        """The ids of text.

        "<|endoftext|>" in it is a piece of ordinary text, unless allow_special: whoever typed the
        text must not be able to end it, or to open another speaker's turn. framed: with begin_ids
        and end_ids around it; a begin that the text has already is not doubled.
        """
        _check_text(text)
        ids: List[int] = []
        for start, part in self._parts(text, allow_special):
            if isinstance(part, AddedToken):
                ids.append(part.token_id)
            else:
                ids.extend(self._encode_ordinary(part, start))
        if not framed:
            return ids
        begin, end = list(self.begin_ids), list(self.end_ids)
        return (ids if ids[: len(begin)] == begin else begin + ids) + end

    def encode_segments(self, segments: Iterable[Tuple[str, bool]]) -> List[int]:
        """The ids of one text in segments: (a special token, True) or (ordinary text, False).

        Equal to those of the whole text with allow_special, where the ordinary text holds no
        special token. White space beside a token that takes it is lost here too.
        """
        parts = [("", False), *segments, ("", False)]
        ids: List[int] = []
        start = 0
        for (before, _), (text, special), (after, _) in zip(parts, parts[1:], parts[2:]):
            if special:
                ids.append(self.special_tokens[text])
            else:
                _check_text(text)
                ids.extend(self._encode_between(before, text, after, start))
            start += len(text)
        return ids

    def decode(self, ids: Iterable[int], show_special: bool = False) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD.

        An id that no token has is no text: a model may know more ids than its tokenizer.
        """
        token_of = self.token if show_special else self._visible
        tokens = [token for token in map(token_of, ids) if token is not None]
        stages = start_stages(self._decoder, False)
        return "".join(push_through(stages, tokens)) + end_of(stages)

    def stream(self, show_special: bool = False, after_text: bool = False) -> TextStream:
        """after_text: the ids go on from a prompt, so that their first space is one."""
        token_of = self.token if show_special else self._visible
        known = self._known_all if show_special else self._known
        return TextStream(token_of, self._decoder, after_text, known)

    def token(self, token_id: int) -> Optional[str]:
        """The token as the vocabulary writes it, None for an id that has none."""
        if token_id < 0:
            raise EdgeformerError("token id %d is negative" % token_id)
        return self._tokens[token_id] if token_id < len(self._tokens) else None

    def bytes_of(self, token_id: int, after_text: bool = True) -> Optional[bytes]:
        """The UTF-8 that this id adds to a text, maybe a part of a character; after_text: not as
        the first of a text.

        None for a special token, for an id without a token, and where the text that an id adds
        depends on those after it.
        """
        return self._bytes(token_id, start_stages(self._decoder, after_text))

    def bytes_of_all(self, after_text: bool = True) -> List[Optional[bytes]]:
        """bytes_of every id."""
        stages = start_stages(self._decoder, after_text)
        return [self._bytes(token_id, stages) for token_id in range(len(self._tokens))]

    def _bytes(self, token_id: int, stages: List[Stage]) -> Optional[bytes]:
        text = self._visible(token_id)
        for stage in stages:
            text = None if text is None else stage.alone(text)
        try:
            return None if text is None else text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # a vocabulary may hold half a surrogate pair
            return None

    def _visible(self, token_id: int) -> Optional[str]:
        token = None if token_id in self._hidden else self.token(token_id)
        # A vocabulary may have the same text once more.
        return None if token in self.special_tokens else token

    def _encode_between(self, before: str, text: str, after: str, start: int) -> Iterator[int]:
        """Ordinary text, without the white space that the special tokens around it take."""
        left, right = self._flags.get(before), self._flags.get(after)
        first, end = 0, len(text)
        while left and left.rstrip and first < end and self._early.is_space(text[first]):
            first += 1
        while right and right.lstrip and first < end and self._early.is_space(text[end - 1]):
            end -= 1
        for offset, part in self._parts(text[first:end], False):
            if isinstance(part, AddedToken):
                yield part.token_id
            else:
                yield from self._encode_ordinary(part, start + offset)

    def _encode_ordinary(self, text: str, start: int) -> List[int]:
        """The ids of a stretch without added tokens; start is 0 where it begins the text."""
        raise NotImplementedError

    def _normalized(self, text: str) -> str:
        return text if self._normalize is None else self._normalize(text)

    def _parts(self, text: str, allow_special: bool) -> Iterator[Tuple[int, Part]]:
        """Added tokens and the normalized stretches between them."""
        for start, part in self._early.cut(text, allow_special):
            if isinstance(part, AddedToken):
                yield start, part
            else:
                for offset, piece in self._late.cut(self._normalized(part), allow_special):
                    yield start + offset, piece


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
