"""What ends a stream besides its tokens: strings in its text, a deadline, a cancel."""

from time import perf_counter
from typing import List, Optional, Sequence, Tuple


class Halt:
    """A deadline that runs from `begin`, and a switch that any thread may turn.

    Looked at between two steps, so that a stream ends at most one step after either of them.
    """

    def __init__(self, deadline_s: Optional[float] = None) -> None:
        self._seconds = deadline_s
        self._end: Optional[float] = None
        self.cancelled = False

    def begin(self) -> None:
        if self._seconds is not None:
            self._end = perf_counter() + self._seconds

    def reason(self) -> Optional[str]:
        """ "cancelled" or "deadline" once a stream has to end."""
        if self.cancelled:
            return "cancelled"
        return "deadline" if self._end is not None and perf_counter() >= self._end else None


class StopText:
    """Passes text on, holding back only what may be the beginning of a stop string.

    The end is where the first stop string is complete, so it does not depend on how the text was
    cut into pieces. Each character is looked at once, however long the strings and the text are:
    a string's progress falls back along its own borders (Knuth, Morris and Pratt).
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._firsts = frozenset(stop[0] for stop in self._stops)
        self._borders = [_borders(stop) for stop in self._stops]
        self._found = [0] * len(self._stops)  # characters of each that the text ends with
        self._held = ""

    def push(self, piece: str) -> Tuple[str, bool]:
        """Text that may be shown, and whether a stop string ended it."""
        if not self._held and self._firsts.isdisjoint(piece):
            return piece, False
        for read, character in enumerate(piece, 1):
            complete = self._advance(character)
            if complete:
                shown = (self._held + piece[:read])[: len(self._held) + read - complete]
                self._reset()
                return shown, True
        text = self._held + piece
        held = max(self._found)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def flush(self) -> str:
        """What was held back, when the text is over and no stop string came of it."""
        held = self._held
        self._reset()
        return held

    def _reset(self) -> None:
        self._found = [0] * len(self._stops)
        self._held = ""

    def _advance(self, character: str) -> int:
        """Take one character; the length of the longest stop string that it completes, or 0."""
        complete = 0
        for index, stop in enumerate(self._stops):
            found, borders = self._found[index], self._borders[index]
            while found and stop[found] != character:
                found = borders[found - 1]
            found += stop[found] == character
            if found == len(stop):
                complete = max(complete, found)  # and all begins anew
            self._found[index] = found
        return complete


def _borders(stop: str) -> List[int]:
    """Of each beginning of `stop`, how long its longest end is that `stop` begins with too."""
    borders = [0] * len(stop)
    found = 0
    for index in range(1, len(stop)):
        while found and stop[found] != stop[index]:
            found = borders[found - 1]
        found += stop[found] == stop[index]
        borders[index] = found
    return borders
