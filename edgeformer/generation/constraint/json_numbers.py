"""Numbers of JSON in a range, as trees of their digits."""

from decimal import Decimal
from typing import Any, List, Optional

from edgeformer.generation.constraint.syntax import NOTHING, Tree, text_tree

MOST_DIGITS = 20  # before the point, and behind it, where a range allows more

_DIGIT: Tree = ("set", (48, 58))
_FREE: Tree = ("repeat", _DIGIT, 0, MOST_DIGITS)
_FRACTION: Tree = ("all", [text_tree("."), ("repeat", _DIGIT, 1, MOST_DIGITS)])
_ZEROS: Tree = ("repeat", text_tree("0"), 0, MOST_DIGITS)
NEVER: Tree = ("any", [])


class Bounds:
    """A range with its ends in it or not; None is no end."""

    def __init__(
        self, low: Optional[Any], high: Optional[Any], low_open: bool, high_open: bool
    ) -> None:
        self.low = None if low is None else Decimal(str(low))
        self.high = None if high is None else Decimal(str(high))
        self.low_open, self.high_open = low_open, high_open

    def mirrored(self) -> "Bounds":
        low = None if self.high is None else -self.high
        high = None if self.low is None else -self.low
        return Bounds(low, high, self.high_open, self.low_open)

    def from_zero(self) -> "Bounds":
        """Without what is below 0."""
        if self.low is None or self.low < 0:
            return Bounds(0, self.high, False, self.high_open)
        return self

    def empty(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))


def integers(bounds: Bounds) -> Tree:
    """Integers of at most 20 digits in a range."""
    return _signed(bounds, _naturals_in)


def numbers(bounds: Bounds) -> Tree:
    """Numbers in a range; with an exponent only where there is no range."""
    if bounds.low is None and bounds.high is None:
        exponent = ("all", [("set", (69, 70, 101, 102)), _optional(("set", (43, 44, 45, 46)))])
        exponent = ("all", [exponent, ("repeat", _DIGIT, 1, 2)])
        whole = ("all", [_optional(text_tree("-")), _naturals(0, None)])
        return ("all", [whole, _optional(_FRACTION), _optional(exponent)])
    return _signed(bounds, _decimals_in)


def _signed(bounds: Bounds, from_zero: Any) -> Tree:
    found: List[Tree] = []
    for sign, side in (("", bounds), ("-", bounds.mirrored())):
        side = side.from_zero()
        if not side.empty():
            found.append(("all", [text_tree(sign), from_zero(side)]))
    return ("any", found)


def _naturals_in(bounds: Bounds) -> Tree:
    low = int(bounds.low)
    low += low < bounds.low or (low == bounds.low and bounds.low_open)
    if bounds.high is None:
        return _naturals(low, None)
    high = int(bounds.high)
    high -= high == bounds.high and bounds.high_open
    return _naturals(low, high)


def _naturals(low: int, high: Optional[int]) -> Tree:
    most = 10**MOST_DIGITS - 1
    high = most if high is None else min(high, most)
    found: List[Tree] = []
    while low <= high:
        length = len(str(low))
        last = min(high, 10**length - 1)
        first, top = str(low), str(last)
        if length > 1 and first == "1" + "0" * (length - 1) and top == "9" * length:
            longest = len(str(high)) - (high != 10 ** len(str(high)) - 1)
            rest = ("repeat", _DIGIT, length - 1, longest - 1)
            found.append(("all", [("set", (49, 58)), rest]))
            low = 10**longest
            continue
        found.append(_same_length(first, top))
        low = last + 1
    return ("any", found)


def _same_length(low: str, high: str) -> Tree:
    if not low:
        return NOTHING
    if set(low) == {"0"} and set(high) == {"9"}:
        return ("repeat", _DIGIT, len(low), len(low))
    rest = len(low) - 1
    if low[0] == high[0]:
        return ("all", [text_tree(low[0]), _same_length(low[1:], high[1:])])
    found = [
        ("all", [text_tree(low[0]), _same_length(low[1:], "9" * rest)]),
        ("all", [text_tree(high[0]), _same_length("0" * rest, high[1:])]),
    ]
    if ord(high[0]) - ord(low[0]) > 1:
        between = ("set", (ord(low[0]) + 1, ord(high[0])))
        found.append(("all", [between, ("repeat", _DIGIT, rest, rest)]))
    return ("any", found)


def _decimals_in(bounds: Bounds) -> Tree:
    low, low_fraction = _parts(bounds.low)
    if bounds.high is None:
        high, high_fraction = 10**MOST_DIGITS, ""
    else:
        high, high_fraction = _parts(bounds.high)
    if low == high:
        fraction = _between(low_fraction, high_fraction, bounds)
        return ("all", [text_tree(str(low)), fraction])
    found = [
        ("all", [text_tree(str(low)), _at_least(low_fraction, bounds.low_open)]),
        ("all", [_naturals(low + 1, high - 1), _optional(_FRACTION)]),
    ]
    if bounds.high is not None:
        found.append(("all", [text_tree(str(high)), _at_most(high_fraction, bounds.high_open)]))
    return ("any", found)


def _parts(value: Decimal) -> Any:
    """The whole part, and the digits behind the point without zeros at their end."""
    whole, _, fraction = format(value, "f").partition(".")
    return int(whole), fraction.rstrip("0")


def _at_least(fraction: str, opened: bool) -> Tree:
    if not fraction and not opened:
        return _optional(_FRACTION)
    return ("all", [text_tree("."), _digits_at_least(fraction, opened)])


def _digits_at_least(digits: str, opened: bool) -> Tree:
    if not digits:
        return ("all", [_ZEROS, ("set", (49, 58)), _FREE]) if opened else _FREE
    found = [("all", [text_tree(digits[0]), _digits_at_least(digits[1:], opened)])]
    found.append(("all", [("set", (ord(digits[0]) + 1, 58)), _FREE]))
    return ("any", found if digits[0] < "9" else found[:1])


def _at_most(fraction: str, opened: bool) -> Tree:
    if not fraction:
        zeros = ("all", [text_tree(".0"), _ZEROS])
        return NEVER if opened else _optional(zeros)
    return _optional(("all", [text_tree("."), _digits_at_most(fraction, opened)]))


def _digits_at_most(digits: str, opened: bool) -> Tree:
    if not digits:
        return NEVER if opened else _ZEROS
    after = _digits_at_most(digits[1:], opened)
    found = [("all", [text_tree(digits[0]), _optional(after) if digits[1:] else after])]
    found.append(("all", [("set", (48, ord(digits[0]))), _FREE]))
    return ("any", found if digits[0] > "0" else found[:1])


def _between(low: str, high: str, bounds: Bounds) -> Tree:
    """Behind the same whole part."""
    digits = ("all", [text_tree("."), _digits_between(low, high, bounds)])
    whole_fits = not low and not bounds.low_open and (high or not bounds.high_open)
    return _optional(digits) if whole_fits else digits


def _digits_between(low: str, high: str, bounds: Bounds) -> Tree:
    if not high:
        exact = not low and not bounds.low_open and not bounds.high_open
        return ("all", [text_tree("0"), _ZEROS]) if exact else NEVER
    first, last = low[:1] or "0", high[0]
    if first == last:
        inner = _digits_between(low[1:], high[1:], bounds)
        if not low[1:] and not bounds.low_open and (high[1:] or not bounds.high_open):
            inner = _optional(inner)
        return ("all", [text_tree(first), inner])
    after_last = _digits_at_most(high[1:], bounds.high_open)
    found = [
        ("all", [text_tree(first), _digits_at_least(low[1:], bounds.low_open)]),
        ("all", [text_tree(last), _optional(after_last) if high[1:] else after_last]),
    ]
    if ord(last) - ord(first) > 1:
        found.append(("all", [("set", (ord(first) + 1, ord(last))), _FREE]))
    return ("any", found)


def _optional(tree: Tree) -> Tree:
    return ("any", [NOTHING, tree])
