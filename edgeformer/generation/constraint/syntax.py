"""Read a regular expression into a tree, for Pythons that llguidance has no release for.

A tree is made of tuples: ("set", code points), ("all", parts), ("any", choices),
("repeat", part, least, most or None) and ("call", the name of a rule).
"""

import re
from typing import Any, List, NamedTuple, Optional, Tuple

from edgeformer.text import pattern_classes
from edgeformer.text.code_points import complement, single
from edgeformer.text.pattern_classes import UnknownPattern

Tree = Tuple[Any, ...]

NOTHING: Tree = ("all", [])
_NEWLINE = single(ord("\n"))
_MOST_DEPTH = 50
_MOST_COUNT = 10000
_COUNT = re.compile(r"\{(\d{1,6})(,(\d{1,6})?)?\}", re.ASCII)


class Branch(NamedTuple):
    """One of the choices of a whole pattern, and whether it holds to the text's start and end."""

    tree: Tree
    start: bool
    end: bool


def text_tree(text: str) -> Tree:
    return ("all", [("set", single(ord(each))) for each in text])


def parse(source: str) -> List[Branch]:
    """Raises UnknownPattern where it is not understood."""
    reader = _Reader(source)
    branches = []
    while True:
        start = reader.take("^") or reader.take("\\A")
        tree = reader.sequence(0, False)
        end = reader.take("$") or reader.take("\\z")
        branches.append(Branch(tree, start, end))
        if reader.at == len(source):
            return branches
        if not reader.take("|"):
            raise UnknownPattern("`%s` at %d" % (source[reader.at], reader.at + 1))


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def sequence(self, depth: int, fold: bool) -> Tree:
        parts: List[Tree] = []
        while self.at < len(self.source) and self.source[self.at] not in "|)$":
            if self.source.startswith("\\z", self.at):
                break
            part = self._atom(depth, fold)
            counts = self._counts()
            if counts is not None:
                self.take("?")  # lazy or not, what may be written is the same
                part = ("repeat", part) + counts
                if self._counts() is not None:
                    raise UnknownPattern("a count right after a count at %d" % self.at)
            parts.append(part)
        return parts[0] if len(parts) == 1 else ("all", parts)

    def _choices(self, depth: int, fold: bool) -> Tree:
        if depth > _MOST_DEPTH:
            raise UnknownPattern("more than %d groups inside each other" % _MOST_DEPTH)
        found = [self.sequence(depth, fold)]
        while self.take("|"):
            found.append(self.sequence(depth, fold))
        return found[0] if len(found) == 1 else ("any", found)

    def _atom(self, depth: int, fold: bool) -> Tree:
        letter = self.source[self.at]
        if letter == "(":
            return self._group(depth, fold)
        if letter == "^" or self.source.startswith("\\A", self.at):
            raise UnknownPattern("`^` that is not at the start")
        if letter in "*+?{":
            raise UnknownPattern("nothing to repeat before `%s`" % letter)
        if self.take("."):
            return ("set", complement(_NEWLINE))
        members, self.at = pattern_classes.read_set(self.source, self.at)
        return ("set", pattern_classes.folded(members) if fold else members)

    def _group(self, depth: int, fold: bool) -> Tree:
        opening = next(filter(self.take, ("(?:", "(?i:")), None)
        if opening is None and self.source.startswith("(?", self.at):
            raise UnknownPattern("the group %r" % self.source[self.at : self.at + 4])
        if opening is None:
            self.take("(")
        inner = self._choices(depth + 1, fold or opening == "(?i:")
        if self.take(")"):
            return inner
        if self.at < len(self.source):
            raise UnknownPattern("`$` that is not at the end")
        raise UnknownPattern("`(` without `)`")

    def _counts(self) -> Optional[Tuple[int, Optional[int]]]:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(sign):
                return counts
        if not self.source.startswith("{", self.at):
            return None
        found = _COUNT.match(self.source, self.at)
        if found is None:
            raise UnknownPattern("`{` that is no count at %d" % (self.at + 1))
        self.at = found.end()
        least = int(found.group(1))
        most = least if found.group(2) is None else None
        if found.group(3):
            most = int(found.group(3))
        if max(least, most or 0) > _MOST_COUNT or (most is not None and most < least):
            raise UnknownPattern("the count " + found.group())
        return least, most
