"""Sets of characters as ranges of the bytes of their UTF-8."""

from typing import Iterator, List, Tuple

from edgeformer.text.code_points import CodePoints, difference

Range = Tuple[int, int]  # first and last byte

_SURROGATES = (0xD800, 0xE000)
_LENGTHS = (0x80, 0x800, 0x10000, 0x110000)  # each length of UTF-8 ends before one of these


def utf8_ranges(members: CodePoints) -> Iterator[List[Range]]:
    """Sequences of byte ranges; each character of the set fits one, and nothing else fits any."""
    members = difference(members, _SURROGATES)
    for start, stop in zip(members[::2], members[1::2]):
        for limit in _LENGTHS:
            if start < min(stop, limit):
                yield from _split(start, min(stop, limit) - 1)
                start = limit


def _split(first: int, last: int) -> Iterator[List[Range]]:
    """The same for a range of characters that have equally many bytes."""
    low, high = chr(first).encode("utf-8"), chr(last).encode("utf-8")
    for tail in range(len(low) - 1, 0, -1):  # bytes after the first that differs
        block = 1 << (6 * tail)
        if first // block == last // block:
            continue
        if first % block:
            border = (first // block + 1) * block
            yield from _split(first, border - 1)
            yield from _split(border, last)
            return
        if (last + 1) % block:
            border = last // block * block
            yield from _split(first, border - 1)
            yield from _split(border, last)
            return
    yield list(zip(low, high))
