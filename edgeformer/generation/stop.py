"""Stop strings over a text that comes in pieces."""

from typing import Sequence, Tuple


class StopText:
    """Passes text on, holding back only what may be the beginning of a stop string.

    The end is where the first stop string is complete, so it does not depend on how the text
    was cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, piece: str) -> Tuple[str, bool]:
        """Text that may be shown, and whether a stop string ended it."""
        if not self._stops:
            return piece, False
        text = self._held + piece
        matches = []
        for stop in self._stops:
            start = text.find(stop)
            if start >= 0:
                matches.append((start + len(stop), start))
        if matches:
            self._held = ""
            _, start = min(matches)
            return text[:start], True
        held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def flush(self) -> str:
        """What was held back, when the text is over and no stop string came of it."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`, but not all of it."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
