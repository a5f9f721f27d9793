"""Text from token ids, one at a time, never half a character."""

import codecs
from typing import Callable


class TextStream:
    """Turns ids into text as they come: what was pushed so far, up to the last whole character.

    The chunks joined, with flush() last, are exactly what decode() gives for the same ids,
    wherever they are cut. A push costs the same however long the text already is.
    """

    def __init__(self, bytes_of: Callable[[int], bytes]) -> None:
        self._bytes_of = bytes_of
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that this id completes; "" while a character lacks bytes."""
        return self._decoder.decode(self._bytes_of(token_id))

    def flush(self) -> str:
        """What the text ends with: "" or, where a character was left unfinished, U+FFFD."""
        return self._decoder.decode(b"", final=True)
