"""What one render may use, and the refusal of anything beyond."""

MOST_TEXT = 1000000  # characters of one text, and of the whole output
MOST_WORK = 16000000  # characters of all texts that were made: 5 bytes each at the worst
MOST_STEPS = 250000  # nodes evaluated and items handled
MOST_BITS = 1024  # of an integer
MOST_NESTED = 60  # a list in a list in a dict ...
MOST_PADDING = 10000  # a width or a precision in a format


class Refused(Exception):
    """The template asked for something it may not have, or that is not there."""


class Raised(Refused):
    """The template itself refuses its input, with raise_exception."""


class Budget:
    """Counts what a render uses. Everything is paid for before it is made."""

    def __init__(self) -> None:
        self._steps = MOST_STEPS
        self._work = MOST_WORK

    def step(self, count: int = 1) -> None:
        """Pay for nodes evaluated, or for items about to be copied."""
        self._steps -= count
        if self._steps < 0:
            raise Refused("it takes more than %d steps; chat templates are far below" % MOST_STEPS)

    def text(self, length: int) -> None:
        """Pay for a text of this many characters."""
        if length > MOST_TEXT:
            shown = "%d" % length if length < 10**15 else "more than 10**15"
            raise Refused("a text of %s characters; the limit is %d" % (shown, MOST_TEXT))
        self.work(length)

    def work(self, characters: int) -> None:
        self._work -= characters
        if self._work < 0:
            raise Refused("it handles more than %d characters of text" % MOST_WORK)

    def search(self, text: str, wanted: str) -> None:
        """Pay for looking for a text in another: up to the product on an old Python."""
        self.work(len(text) + len(text) * len(wanted) // 64)


def whole_number(value: int) -> int:
    """An integer of a size that costs nothing to handle."""
    if value.bit_length() > MOST_BITS:
        raise Refused("an integer of %d bits; the limit is %d" % (value.bit_length(), MOST_BITS))
    return value


def padding(width: int) -> int:
    if not isinstance(width, int) or abs(width) > MOST_PADDING:
        raise Refused("a width or precision of %s; the limit is %d" % (width, MOST_PADDING))
    return width
