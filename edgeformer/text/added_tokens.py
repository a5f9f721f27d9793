"""Tokens that are matched in a text as a whole, before it is cut into words."""

import re
from typing import Dict, Iterable, Iterator, List, NamedTuple, Tuple, Union

from edgeformer.text.code_points import contains, table


class AddedToken(NamedTuple):
    """A token with a text of its own.

    special: hidden in decoded text, and found in a text only with allow_special=True.
    early: matched before the text is normalized (`"normalized": false` in a tokenizer.json).
    lstrip, rstrip: the white space on that side belongs to the token.
    single_word: not found inside a word.
    """

    content: str
    token_id: int
    special: bool = True
    early: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


Part = Union[str, AddedToken]


class Finder:
    """Finds the leftmost, and of those that begin there the longest."""

    def __init__(self, tokens: Iterable[Tuple[str, AddedToken]]) -> None:
        """tokens: each with the text by which it is found."""
        self._tokens: Dict[str, AddedToken] = {}
        for content, token in tokens:
            self._tokens.setdefault(content, token)
        lengths: Dict[str, set] = {}
        for content in self._tokens:
            lengths.setdefault(content[0], set()).add(len(content))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        firsts = "".join(map(re.escape, self._lengths))
        self._find_first = re.compile("[%s]" % firsts).finditer if firsts else None
        self._spaces = table("SPACES")
        self._letters = table("SINGLE_WORD", "L", "M", "Nd", "Pc")

    def cut(self, text: str, allow_special: bool) -> Iterator[Tuple[int, Part]]:
        """The tokens in text and what lies between them, each with where it begins."""
        done = 0
        for start, end, token in self._matches(text):
            if token.special and not allow_special:
                continue
            if token.single_word and self._inside_word(text, start, end):
                continue
            while token.lstrip and start > done and self.is_space(text[start - 1]):
                start -= 1
            while token.rstrip and end < len(text) and self.is_space(text[end]):
                end += 1
            if token.lstrip and end <= done:
                continue  # white space itself, and the token before it has taken it
            if done < start:
                yield done, text[done:start]
            yield start, token
            done = end
        if done < len(text):
            yield done, text[done:]

    def is_space(self, character: str) -> bool:
        return contains(self._spaces, character)

    def _matches(self, text: str) -> List[Tuple[int, int, AddedToken]]:
        """None overlaps another; also those that are then passed over hide what is in them."""
        found = []
        done = 0
        for first in self._find_first(text) if self._find_first else ():
            start = first.start()
            if start < done:
                continue
            for length in self._lengths[first.group()]:
                token = self._tokens.get(text[start : start + length])
                if token is not None:
                    done = start + length
                    found.append((start, done, token))
                    break
        return found

    def _inside_word(self, text: str, start: int, end: int) -> bool:
        before = start > 0 and contains(self._letters, text[start - 1])
        return before or (end < len(text) and contains(self._letters, text[end]))
