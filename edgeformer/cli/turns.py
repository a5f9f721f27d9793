"""What a user types in a chat, a turn at a time, at a terminal or through a pipe."""

import importlib
import importlib.util
import signal
import sys
from time import monotonic
from typing import Any, List, Optional

from edgeformer.cli import console
from edgeformer.errors import EdgeformerError

QUOTES = '"""'
LOOK_S = 0.05
DEAF_S = 1.0  # after a press; longer than it takes to end a turn


class Turns:
    """Reads turns: a line, lines that end with a backslash and the next, or a block in quotes.

    `terminal`: somebody types. Only then are there marks to type behind, on stdout where that is
    the terminal, and the line can be edited.
    """

    def __init__(self) -> None:
        if sys.stdin is None:
            raise EdgeformerError("standard input is closed; a chat reads its turns from there")
        self.terminal = sys.stdin.isatty()
        self._edited = self.terminal and sys.stdout is not None and sys.stdout.isatty()
        if self.terminal:
            self._keys = _Keys()
        if self._edited and importlib.util.find_spec("readline") is not None:
            readline = importlib.import_module("readline")  # from now on `input` edits its line
            for line in ("set input-meta on", "set output-meta on", "set convert-meta off"):
                readline.parse_and_bind(line)  # UTF-8 in the C locale, too

    def read(self) -> Optional[str]:
        """The next turn; None: there are no more."""
        line = self._line("> ")
        if line is None:
            return None
        if line.strip().startswith(QUOTES):
            return self._block(line.strip()[len(QUOTES) :])
        lines: List[str] = []
        while line is not None and line.endswith("\\"):
            lines.append(line[:-1])
            line = self._line(". ")
        return "\n".join(lines if line is None else [*lines, line])

    def _block(self, line: Optional[str]) -> str:
        """All up to the next three quotes, which end a line."""
        lines: List[str] = []
        while line is not None and not line.rstrip().endswith(QUOTES):
            lines.append(line)
            line = self._line(". ")
        if line is None:
            raise EdgeformerError(f"the block that {QUOTES} began has no end; end it with {QUOTES}")
        lines.append(line.rstrip()[: -len(QUOTES)])
        return "\n".join(lines).strip("\n")

    def _line(self, mark: str) -> Optional[str]:
        if self._edited:
            try:
                return console.argument_text(self._keys.line(mark), "the line")
            except EOFError:
                return None
        if self.terminal:
            self._keys.listen()
            sys.stderr.write(mark)
            sys.stderr.flush()
        raw = sys.stdin.buffer.readline(console.MOST_BYTES + 1)
        if len(raw) > console.MOST_BYTES:
            raise EdgeformerError(f"the line has more than {console.MOST_BYTES} bytes")
        if not raw:
            return None
        text = console.decoded(raw, "the line")
        return text.rstrip("\n").rstrip("\r")


class _Keys:
    """Ctrl-C at a terminal, and lines by readline, in which it is seen within LOOK_S.

    One press ends the line or the turn that runs; a second one, in the midst of that, ends no more.

    CPython looks for signals only where one interrupts readline's wait for a key; one that comes
    just before would be slept through until a key is pressed. So a timer interrupts the wait. At
    the end of a wait CPython looks twice, the second time with the first one's KeyboardInterrupt
    set: a handler that then returns, or calls the class to raise it, is a SystemError. So whatever
    may run there raises what was made before.
    """

    def __init__(self) -> None:
        self._typing = self._pressed = False
        self._ended: Optional[float] = None  # when a press ended a turn or a line
        self._end = KeyboardInterrupt()
        signal.signal(signal.SIGINT, self._press)
        signal.signal(signal.SIGALRM, self._look)

    def line(self, mark: str) -> str:
        self._end = KeyboardInterrupt()
        self._pressed = False
        self._ended = None
        try:
            self._typing = True
            signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)  # it may come in that instant, too
            line = input(mark)
        finally:
            self._typing = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self._pressed:
            raise KeyboardInterrupt
        return line

    def listen(self) -> None:
        """The next press ends something."""
        self._ended = None

    def _press(self, *_: Any) -> None:
        if not self._typing:
            if self._ended is None or monotonic() - self._ended > DEAF_S:
                self._ended = monotonic()
                raise KeyboardInterrupt
        elif self._pressed:
            raise self._end
        else:
            self._ended = monotonic()
            self._pressed = True

    def _look(self, *_: Any) -> None:
        if self._pressed and self._typing:
            raise self._end
