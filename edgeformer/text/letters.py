"""Normal forms and lower case of a text, as Hugging Face `tokenizers` sees them.

Its normal forms are those of Unicode 9 and its lower case that of Unicode 17. Every Python knows
what Unicode 9 knew, so only the characters since then need care.
"""

import unicodedata
from typing import Callable, Dict

from edgeformer.text import unicode_tables
from edgeformer.text.code_points import table
from edgeformer.text.pattern import Pattern


class CharacterMap(dict):
    """For str.translate: what a function makes of each character, asked once and kept."""

    def __init__(self, function: Callable[[str], str]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, code_point: int) -> str:
        found = self[code_point] = self._function(chr(code_point))
        return found


def normal_form(form: str) -> Callable[[str], str]:
    """The function that brings text into "NFC", "NFD", "NFKC" or "NFKD"."""
    newer = Pattern.of_sets(table("UNASSIGNED_IN_9"), repeated=True)

    def normalized(text: str) -> str:
        if len(text) == len(text.encode("utf-8")):
            return text  # ASCII
        # A character that Unicode 9 did not know has no accents to order and joins with nothing.
        pieces = []
        done = 0
        for start, end in newer.spans(text):
            pieces += (unicodedata.normalize(form, text[done:start]), text[start:end])
            done = end
        return "".join(pieces) + unicodedata.normalize(form, text[done:])

    return normalized


def lower_case() -> Callable[[str], str]:
    """The function that brings text into lower case, each character by itself."""
    new: Dict[str, str] = {}
    for run in unicode_tables.NEW_LOWER_CASE.split():
        first, last, step, distance = (int(number, 16) for number in run.split(":"))
        for code_point in range(first, last + 1, step):
            new[chr(code_point)] = chr(code_point + distance)
    # Not the whole text at once: Python knows that a sigma at the end of a word looks different.
    lower = CharacterMap(lambda character: new.get(character) or character.lower())
    return lambda text: text.translate(lower)
