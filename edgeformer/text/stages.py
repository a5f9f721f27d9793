"""The stages by which tokens become text, a few tokens at a time.

One thing differs from Hugging Face's decoders, on ids that no text is encoded to. Of byte tokens
in a row ("<0xE3>") that are no UTF-8 the reference makes every byte U+FFFD, also those of whole
characters before the wrong one; it must see the end of the row first. Here only the wrong bytes
become U+FFFD.
"""

import codecs
import re
from typing import Callable, List, Optional

from edgeformer.text.byte_letters import spelled_bytes

# One mark for each wrong byte; "replace" would give one for each character left unfinished.
_EACH_BYTE = "edgeformer.each_byte"
codecs.register_error(_EACH_BYTE, lambda error: ("\ufffd" * (error.end - error.start), error.end))

_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")

Change = Callable[[str], str]


class Stage:
    """push() gives the pieces of text that are certain by then, end() what was held back.

    first: no token has come before.
    """

    def __init__(self, after_text: bool) -> None:
        self.first = not after_text

    def push(self, tokens: List[str]) -> List[str]:
        raise NotImplementedError

    def end(self) -> List[str]:
        return []

    def plain(self) -> bool:
        """Nothing is held back, and a token gives the same text as anywhere else in this state."""
        return False

    def alone(self, token: str) -> Optional[str]:
        """What this token adds to the text, by itself; `first` decides how.

        Bytes that are no UTF-8 by themselves are half surrogates ("surrogateescape"). None where
        it depends on the tokens after it.
        """
        raise NotImplementedError


NewStage = Callable[[bool], Stage]  # from whether text came before


class Changed(Stage):
    """Each token by itself, and the first maybe in another way."""

    def __init__(self, after_text: bool, change: Change, first: Optional[Change] = None) -> None:
        super().__init__(after_text)
        self._change = change
        self._change_first = first

    def push(self, tokens: List[str]) -> List[str]:
        changed = [self._change(token) for token in tokens]
        if self.first and tokens and self._change_first is not None:
            changed[0] = self._change_first(tokens[0])
        self.first = self.first and not tokens
        return changed

    def alone(self, token: str) -> str:
        if self.first and self._change_first is not None:
            return self._change_first(token)
        return self._change(token)

    def plain(self) -> bool:
        return not self.first or self._change_first is None


class ByteLetters(Stage):
    """Tokens spell bytes; a character is held until its last byte is there."""

    def __init__(self, after_text: bool) -> None:
        super().__init__(after_text)
        self._held = b""

    def push(self, tokens: List[str]) -> List[str]:
        spelled = self._held + b"".join(map(spelled_bytes, tokens))
        text, used = codecs.utf_8_decode(spelled, "replace", False)
        self._held = spelled[used:]
        return [text]

    def alone(self, token: str) -> str:
        return spelled_bytes(token).decode("utf-8", "surrogateescape")

    def end(self) -> List[str]:
        held, self._held = self._held, b""
        return [codecs.utf_8_decode(held, "replace", True)[0]]

    def plain(self) -> bool:
        return not self._held


class ByteFallback(Stage):
    """Some tokens, like "<0x0A>", are a byte. A character ends before the next that is not."""

    def __init__(self, after_text: bool) -> None:
        super().__init__(after_text)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors=_EACH_BYTE)

    def push(self, tokens: List[str]) -> List[str]:
        pieces = []
        for token in tokens:
            byte = _BYTE.fullmatch(token)
            if byte is None:
                pieces += (self._decoder.decode(b"", final=True), token)
            else:
                pieces.append(self._decoder.decode(bytes.fromhex(byte.group(1))))
        return pieces

    def alone(self, token: str) -> str:
        byte = _BYTE.fullmatch(token)
        if byte is None:
            return token
        return bytes.fromhex(byte.group(1)).decode("utf-8", "surrogateescape")

    def end(self) -> List[str]:
        return [self._decoder.decode(b"", final=True)]

    def plain(self) -> bool:
        return not self._decoder.getstate()[0]


class StripStart(Stage):
    """Takes up to `most` of a character from the start of the whole text."""

    def __init__(self, after_text: bool, character: str, most: int) -> None:
        super().__init__(after_text)
        self._character = character
        self._most = most if self.first else 0

    def push(self, tokens: List[str]) -> List[str]:
        if not self._most:
            return tokens
        text = "".join(tokens)
        stripped = strip_start(text, self._character, self._most)
        self._most = 0 if stripped else self._most - len(text)
        return [stripped]

    def alone(self, token: str) -> str:
        return strip_start(token, self._character, self._most)

    def plain(self) -> bool:
        return not self._most


class EndOfWord(Stage):
    """A suffix means the end of a word: a space, but not after the last token."""

    def __init__(self, after_text: bool, suffix: str) -> None:
        super().__init__(after_text)
        self._suffix = suffix
        self._held = ""

    def push(self, tokens: List[str]) -> List[str]:
        pieces = []
        for token in tokens:
            head, suffix, tail = token.partition(self._suffix)
            pieces += (self._held.replace(self._suffix, " "), head)
            self._held = suffix + tail
        return pieces

    def alone(self, token: str) -> Optional[str]:
        return None if self._suffix in token else token

    def end(self) -> List[str]:
        return [self._held.replace(self._suffix, "")]


def strip_start(text: str, character: str, most: int) -> str:
    return text[min(most, len(text) - len(text.lstrip(character))) :]
