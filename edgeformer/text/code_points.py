"""Sets of code points, and which of them a character is in, the same on every Python.

A set is a tuple of borders: members from the first to before the second, from the third to before
the fourth, and so on.
"""

import re
from bisect import bisect_right
from typing import Dict, List, Sequence, Tuple

from edgeformer.text import unicode_tables

CodePoints = Tuple[int, ...]

CODE_POINTS = 0x110000
EVERY = (0, CODE_POINTS)

# The letter of each general category in unicode_tables.GENERAL.
CATEGORIES = dict(
    zip(
        re.findall("..", "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn"),
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%",
    )
)

_unpacked: Dict[str, CodePoints] = {}


def category(*names: str) -> CodePoints:
    """Every code point of these general categories: "Lu", or "L" for all that begin with it."""
    if not _unpacked:
        _unpack_categories()
    return union(*(_unpacked[each] for each in _unpacked if each.startswith(names)))


def table(name: str, *relative_to: str) -> CodePoints:
    """A set of unicode_tables, which may be stored as its difference from some categories."""
    borders = []
    border = 0
    for step in getattr(unicode_tables, name).split():
        border += int(step, 36)
        borders.append(border)
    return toggled(tuple(borders), category(*relative_to) if relative_to else ())


def single(code_point: int) -> CodePoints:
    return (code_point, code_point + 1)


def union(*sets: CodePoints) -> CodePoints:
    if len(sets) == 1:
        return sets[0]
    events = sorted(
        (border, 1 if index % 2 else -1) for each in sets for index, border in enumerate(each)
    )
    borders: List[int] = []
    depth = 0
    for border, event in events:
        # Beginnings come first, so sets that touch are joined.
        if depth == 0:
            borders.append(border)
        depth -= event
        if depth == 0:
            borders.append(border)
    return tuple(borders)


def toggled(one: CodePoints, other: CodePoints) -> CodePoints:
    """What is in one of the two, and not in both."""
    return tuple(sorted(set(one).symmetric_difference(other)))


def complement(one: CodePoints) -> CodePoints:
    return toggled(one, EVERY)


def intersection(*sets: CodePoints) -> CodePoints:
    return complement(union(*map(complement, sets)))


def difference(one: CodePoints, other: CodePoints) -> CodePoints:
    return intersection(one, complement(other))


def contains(one: CodePoints, character: str) -> bool:
    return bisect_right(one, ord(character)) % 2 == 1


class Partition(dict):
    """Gives every code point a letter, so that each of some sets is a set of these letters.

    Made for str.translate: a translated text has one letter a character, and letters are ASCII as
    long as they last. Letters are looked up once and kept.
    """

    def __init__(self, sets: Sequence[CodePoints]) -> None:
        super().__init__()
        flips: Dict[int, int] = {0: 0}
        for index, each in enumerate(sets):
            for border in each:
                flips[border] = flips.get(border, 0) ^ (1 << index)
        self._borders = sorted(flips)
        members = 0  # a bit for each set
        letter_of: Dict[int, str] = {}
        letters = []
        for border in self._borders:
            members ^= flips[border]
            letters.append(letter_of.setdefault(members, _letter(len(letter_of))))
        self._letters = letters
        # Which letters make up each of the sets.
        self.letters_of = [
            "".join(letter for members, letter in letter_of.items() if members >> index & 1)
            for index in range(len(sets))
        ]

    def __missing__(self, code_point: int) -> str:
        letter = self._letters[bisect_right(self._borders, code_point) - 1]
        self[code_point] = letter
        return letter


def _letter(index: int) -> str:
    """Letters and digits first; then what is left of ASCII, then anything."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    return alphabet[index] if index < len(alphabet) else chr(0x100 + index)


def _unpack_categories() -> None:
    name_of = {letter: name for name, letter in CATEGORIES.items()}
    borders: Dict[str, List[int]] = {name: [] for name in CATEGORIES}
    at = 0
    runs = unicode_tables.GENERAL.replace("\n", "")
    for length, letter in re.findall("([0-9a-z]*)([^0-9a-z])", runs):
        end = at + (int(length, 36) if length else 1)
        borders[name_of[letter]] += (at, end)
        at = end
    whole = {name: tuple(found) for name, found in borders.items()}
    _unpacked.update(whole)  # at once: another thread may be looking
