"""Find what a tokenizer file's pattern finds, with Python's `re` and our own Unicode tables.

Python's re has no \\p{L}, knows another Unicode on every Python, and folds case its own way. So a
text is first translated, character by character, to letters that name the classes which the
pattern tells apart; a pattern of such letters then finds the same places.
"""

import re
from typing import Dict, Iterator, List, Tuple

from edgeformer.text.code_points import CodePoints, Partition
from edgeformer.text.pattern_classes import UnknownPattern
from edgeformer.text.pattern_syntax import Tree, parse

Span = Tuple[int, int]

_MOST_LENGTH = 4000
_MOST_UNBOUNDED = 3


class Pattern:
    """source: a pattern in Oniguruma's syntax; raises UnknownPattern where it is not understood."""

    def __init__(self, source: str) -> None:
        if len(source) > _MOST_LENGTH:
            raise UnknownPattern("%d characters" % len(source))
        tree = parse(source)
        if _unbounded(tree) > _MOST_UNBOUNDED:
            # Each could take the text of the next: with many, a hostile text takes for ever.
            raise UnknownPattern("more than %d repeats without end in a row" % _MOST_UNBOUNDED)
        self._compile(tree)

    @classmethod
    def of_sets(cls, *sets: CodePoints, repeated: bool = False) -> "Pattern":
        """Finds each character that is in one of them; repeated: each run of one set."""
        self = cls.__new__(cls)
        trees: List[Tree] = [("set", members) for members in sets]
        if repeated:
            trees = [("repeat", tree, 1, None, "greedy") for tree in trees]
        self._compile(("any", trees))
        return self

    def spans(self, text: str) -> Iterator[Span]:
        """Where it matches, from left to right."""
        if not text:
            return  # not even nothing
        classes = text.translate(self._partition)
        if not self._matches_nothing:
            for match in self._find(classes):
                yield match.span()
            return
        at = 0
        last_end = -1
        while at <= len(text):
            match = self._search(classes, at)
            if match is None:
                return
            start, end = match.span()
            if start == end == last_end:
                at += 1  # nothing, right after a match, is passed over
                continue
            yield start, end
            at = last_end = end

    def _compile(self, tree: Tree) -> None:
        writer = _Writer()
        writer.collect(tree)
        self._partition = Partition(list(writer.index_of))
        writer.letters_of = self._partition.letters_of
        try:
            compiled = re.compile(writer.written(tree))
        except re.error as error:
            raise UnknownPattern(str(error)) from None
        self._find = compiled.finditer
        self._search = compiled.search
        self._matches_nothing = _least_width(tree) == 0


class _Writer:
    """Writes a tree for Python's re, in letters of a partition."""

    def __init__(self) -> None:
        self.index_of: Dict[CodePoints, int] = {}
        self.letters_of: List[str] = []
        self._atomic = 0

    def collect(self, tree: Tree) -> None:
        """Note every set that occurs."""
        if tree[0] == "set":
            self.index_of.setdefault(tree[1], len(self.index_of))
        elif tree[0] in ("all", "any"):
            for part in tree[1]:
                self.collect(part)
        elif len(tree) > 1:
            self.collect(tree[1])

    def written(self, tree: Tree) -> str:
        return getattr(self, "_write_" + tree[0].replace(" ", "_"))(*tree[1:])

    def _write_set(self, members: CodePoints) -> str:
        letters = self.letters_of[self.index_of[members]]
        return "[%s]" % letters if letters else "(?!)"

    def _write_all(self, parts: List[Tree]) -> str:
        return "".join("(?:%s)" % self.written(part) for part in parts)

    def _write_any(self, choices: List[Tree]) -> str:
        return "|".join(map(self.written, choices))

    def _write_repeat(self, part: Tree, least: int, most: int, how: str) -> str:
        inner = self.written(part)
        count = "{%d,%s}" % (least, "" if most is None else most)
        if how != "possessive":
            return "(?:%s)%s%s" % (inner, count, "?" if how == "lazy" else "")
        if part[0] != "set":
            return self._write_atomic(("repeat", part, least, most, "greedy"))
        # As many as there are: what follows is none of them.
        if most is None:
            return "(?:%s)%s(?!%s)" % (inner, count, inner)
        return "(?:%s|(?!%s))" % (inner, inner)

    def _write_look(self, part: Tree, ahead: bool, wanted: bool) -> str:
        sign = ("=" if wanted else "!") if ahead else ("<=" if wanted else "<!")
        return "(?%s%s)" % (sign, self.written(part))

    def _write_atomic(self, part: Tree) -> str:
        self._atomic += 1
        name = "a%d" % self._atomic
        return "(?=(?P<%s>%s))(?P=%s)" % (name, self.written(part), name)

    def _write_start(self) -> str:
        return r"\A"

    def _write_end(self) -> str:
        return r"\Z"

    def _write_not_end(self) -> str:
        return r"(?!\Z)"


def _least_width(tree: Tree) -> int:
    if tree[0] == "all":
        return sum(map(_least_width, tree[1]))
    if tree[0] == "any":
        return min(map(_least_width, tree[1]))
    if tree[0] == "repeat":
        return tree[2] * _least_width(tree[1])
    return _least_width(tree[1]) if tree[0] == "atomic" else int(tree[0] == "set")


def _unbounded(tree: Tree) -> int:
    """How many repeats without an upper limit one match can go through."""
    if tree[0] == "all":
        return sum(map(_unbounded, tree[1]))
    if tree[0] == "any":
        return max(map(_unbounded, tree[1]))
    if tree[0] == "repeat":
        return _unbounded(tree[1]) + (tree[3] is None)
    return _unbounded(tree[1]) if tree[0] in ("look", "atomic") else 0
