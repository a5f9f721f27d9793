"""Cut a text into the words that byte-level BPE merges within, as GPT-2's pattern does.

The pattern is `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`.
Python's re has no \\p{L}, so the text is first translated, character by character, to letters
that name their classes; an ASCII pattern then cuts that string at the same places.
"""

import re
from typing import Iterator, List, Tuple

from edgeformer.text.unicode_categories import LETTERS, NUMBERS, SPACES

_CODE_POINTS = 0x110000
# L letter, N number, S white space, P anything else. What the pattern spells out stays itself:
# the space, the apostrophe and the letters of its contractions.
_LITERALS = " 'strevmld"
_WORD = re.compile("'(?:[stmd]|re|ve|ll)| ?[Lstrevmld]+| ?N+| ?[P']+|[ S]+(?![^ S])|[ S]+")


def split_words(text: str) -> List[str]:
    """Every word of text, in order; joined they are the text."""
    classes = text.translate(_CLASS_OF)
    return [text[match.start() : match.end()] for match in _WORD.finditer(classes)]


def is_space(character: str) -> bool:
    """White space by the shipped table, not by this Python's."""
    return _CLASS_OF[ord(character)] in " S"


def _class_table() -> str:
    """A string with the class of each code point at its index: 1.1 MB, and fast in translate."""
    pieces = []
    done = 0
    for first, end, letter in sorted(_ranges()):
        pieces += ["P" * (first - done), letter * (end - first)]
        done = end
    pieces.append("P" * (_CODE_POINTS - done))
    table = "".join(pieces)
    ascii_part = [chr(at) if chr(at) in _LITERALS else table[at] for at in range(128)]
    return "".join(ascii_part) + table[128:]


def _ranges() -> Iterator[Tuple[int, int, str]]:
    """(first, end, class) of each range of the shipped tables."""
    for letter, packed in (("L", LETTERS), ("N", NUMBERS), ("S", SPACES)):
        numbers = [int(number, 36) for number in packed.split()]
        first = 0
        for gap, length in zip(numbers[::2], numbers[1::2]):
            first += gap
            yield first, first + length, letter
            first += length


_CLASS_OF = _class_table()
