"""The part of Oniguruma's syntax that stands for one character: literals, escapes, [classes]."""

import re
from itertools import chain
from typing import List, Optional, Tuple

from edgeformer.text.code_points import (
    CATEGORIES,
    CODE_POINTS,
    EVERY,
    CodePoints,
    category,
    complement,
    intersection,
    single,
    table,
    union,
)

_MOST_DEPTH = 20
_ESCAPED = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27}
_HEX = re.compile(r"\\x([0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\x\{([0-9a-fA-F]{1,6})\}")
_PROPERTY = re.compile(r"\\([pP])\{(\^?)([A-Za-z]+)\}")
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_SCRIPTS = ("han", "hangul", "hiragana", "katakana")
_MAJOR = "LMNPSZC"
_LONG_NAMES = {
    "letter": "L",
    "mark": "M",
    "number": "N",
    "punctuation": "P",
    "symbol": "S",
    "separator": "Z",
    "other": "C",
}
# Two ASCII letters for which there is one character of the same case folding, as in ß and ﬁ.
_FOLDED_PAIRS = ("ss", "ff", "fi", "fl", "st")
_ALSO_FOLDED = {"s": (0x17F,), "k": (0x212A,)}  # long s, kelvin


class UnknownPattern(Exception):
    """The part of a pattern that is not understood, in a few words."""


def read_set(source: str, at: int) -> Tuple[CodePoints, int]:
    """The characters that source stands for at this place, and the place after it."""
    if source[at] == "[":
        return _class(source, at, 0)
    if source[at] == "\\":
        return _escape(source, at)
    return single(ord(source[at])), at + 1


def folded(members: CodePoints) -> CodePoints:
    """With both cases of ASCII letters; other letters have cases too, of which this knows none."""
    if members and members[-1] > 128:
        raise UnknownPattern("(?i: around more than ASCII characters")
    found = set()
    for code_point in chain(*map(range, members[::2], members[1::2])):
        letter = chr(code_point).lower()
        found.update((ord(letter), ord(letter.upper())))
        found.update(_ALSO_FOLDED.get(letter, ()))
    return union(*map(single, sorted(found)))


def check_folded(letters: str) -> None:
    if letters.endswith(_FOLDED_PAIRS):
        raise UnknownPattern("(?i: with %r" % letters[-2:])


def _escape(source: str, at: int) -> Tuple[CodePoints, int]:
    hexadecimal = _HEX.match(source, at)
    if hexadecimal:
        code_point = int("".join(filter(None, hexadecimal.groups())), 16)
        if code_point >= CODE_POINTS or 0xD800 <= code_point < 0xE000:
            raise UnknownPattern("the character " + hexadecimal.group())
        return single(code_point), hexadecimal.end()
    named = _PROPERTY.match(source, at)
    if named:
        members = _property(named.group(3))
        outside = (named.group(1) == "P") != bool(named.group(2))
        return complement(members) if outside else members, named.end()
    escaped = source[at + 1 : at + 2]
    if escaped in _ESCAPED and escaped:
        return single(_ESCAPED[escaped]), at + 2
    members = _letter_class(escaped.lower())
    if members is not None:
        return complement(members) if escaped.isupper() else members, at + 2
    if escaped and escaped < "\x80" and not escaped.isalnum():
        return single(ord(escaped)), at + 2
    raise UnknownPattern("the escape %r" % source[at : at + 2])


def _letter_class(letter: str) -> Optional[CodePoints]:
    """What \\s, \\d, \\w and \\h stand for."""
    if letter == "s":
        return table("SPACES")
    if letter == "d":
        return category("Nd")
    if letter == "w":
        return table("WORD", "L", "M", "Nd", "Pc")
    return union((48, 58), (65, 71), (97, 103)) if letter == "h" else None


def _property(name: str) -> CodePoints:
    short = _LONG_NAMES.get(name.lower(), name.capitalize())
    if short in _MAJOR or short in CATEGORIES:
        return category(short)
    if name.lower() in _SCRIPTS:
        return table(name.upper())
    if name.lower() == "any":
        return EVERY
    raise UnknownPattern("the property \\p{%s}" % name)


def _posix(name: str) -> Optional[CodePoints]:
    if name in ("space", "digit", "word"):
        return _letter_class(name[0])
    if name == "xdigit":
        return _letter_class("h")
    return category("P", "S") if name == "punct" else None


def _class(source: str, at: int, depth: int) -> Tuple[CodePoints, int]:
    """[...], with classes inside it, and the && that both sides must hold."""
    if depth > _MOST_DEPTH:
        raise UnknownPattern("more than %d classes inside each other" % _MOST_DEPTH)
    start = at
    at += 1
    outside = source.startswith("^", at)
    at += outside
    if source.startswith("]", at):
        raise UnknownPattern("an empty class")
    sides: List[CodePoints] = [()]
    while at < len(source) and source[at] != "]":
        if source.startswith("&&", at):
            sides.append(())
            at += 2
            continue
        members, at = _member(source, at, depth)
        sides[-1] = union(sides[-1], members)
    if at == len(source):
        raise UnknownPattern("`[` without `]`")
    if len(sides) > 1 and () in sides:
        raise UnknownPattern("nothing beside && in %s" % source[start : at + 1])
    found = intersection(*sides)
    return complement(found) if outside else found, at + 1


def _member(source: str, at: int, depth: int) -> Tuple[CodePoints, int]:
    start = at
    if source[at] == "[":
        posix = _POSIX.match(source, at)
        if posix is None:
            return _class(source, at, depth + 1)
        members = _posix(posix.group(2))
        if members is None:
            raise UnknownPattern("the class " + posix.group())
        return complement(members) if posix.group(1) else members, posix.end()
    members, at = read_set(source, at)
    if not source.startswith("-", at) or source.startswith("-]", at):
        return members, at
    if source[start] == "-":
        raise UnknownPattern("a range from `-`")
    if source[at + 1 : at + 2] == "[" or at + 1 >= len(source):
        raise UnknownPattern("the range %r" % source[start : at + 2])
    last, at = read_set(source, at + 1)
    if not (_is_one(members) and _is_one(last) and members[0] <= last[0]):
        raise UnknownPattern("the range %r" % source[start:at])
    return (members[0], last[1]), at


def _is_one(members: CodePoints) -> bool:
    return len(members) == 2 and members[1] - members[0] == 1
