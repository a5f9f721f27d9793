"""Cut a text into the words that byte-level BPE merges within, as GPT-2's pattern does.

The pattern is `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`.
Python's re has no \\p{L}, so the text is first translated, character by character, to letters
that name their classes; an ASCII pattern then cuts that string at the same places.
"""

import re

from edgeformer.text.unicode_categories import LETTERS, NUMBERS, SPACES

_CODE_POINTS = 0x110000
# L letter, N number, S white space, P anything else. What the pattern spells out stays itself:
# the space, the apostrophe and the letters of its contractions.
_LITERALS = " 'strevmld"
_WORD = re.compile("'(?:[stmd]|re|ve|ll)| ?[Lstrevmld]+| ?N+| ?[P']+|[ S]+(?![^ S])|[ S]+")


def split_words(text):
    """Every word of text, in order; joined they are the text."""
    classes = text.translate(_CLASS_OF)
    return [text[match.start() : match.end()] for match in _WORD.finditer(classes)]


def is_space(character):
    """White space by the shipped table, not by this Python's."""
    return _CLASS_OF[ord(character)] in " S"


def _class_table():
    """A string with the class of each code point at its index: 1.1 MB, and fast in translate."""
    table = ["P"] * _CODE_POINTS
    for letter, packed in (("L", LETTERS), ("N", NUMBERS), ("S", SPACES)):
        position = 0
        numbers = [int(number, 36) for number in packed.split()]
        for gap, length in zip(numbers[::2], numbers[1::2]):
            position += gap
            table[position : position + length] = letter * length
            position += length
    for character in _LITERALS:
        table[ord(character)] = character
    return "".join(table)


_CLASS_OF = _class_table()
