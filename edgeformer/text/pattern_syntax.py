"""Read the patterns of tokenizer files: Oniguruma's syntax, into a tree.

A tree is made of tuples: ("set", code points), ("all", parts), ("any", choices),
("repeat", part, least, most or None, "greedy" | "lazy" | "possessive"), ("look", part, ahead,
wanted), ("atomic", part) and ("start",), ("end",).

What is not understood raises UnknownPattern; nothing is guessed, since a pattern that is read
wrongly gives a model that answers, slightly wrong, for ever.
"""

from typing import Any, List, Optional, Tuple

from edgeformer.text import pattern_classes
from edgeformer.text.code_points import complement, single, table
from edgeformer.text.pattern_classes import UnknownPattern

Tree = Tuple[Any, ...]

_MOST_DEPTH = 50
_MOST_COUNT = 1000
_NEWLINE = single(ord("\n"))
_GROUPS = {
    "(?:": None,
    "(?=": (True, True),
    "(?!": (True, False),
    "(?<=": (False, True),
    "(?<!": (False, False),
    "(?>": "atomic",
    "(?i:": "fold",
}


def parse(source: str) -> Tree:
    reader = _Reader(source)
    tree = reader.choices(0, False)
    if reader.at < len(source):
        raise UnknownPattern("`)` without `(` at %d" % (reader.at + 1))
    return tree


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def choices(self, depth: int, fold: bool) -> Tree:
        if depth > _MOST_DEPTH:
            raise UnknownPattern("more than %d groups inside each other" % _MOST_DEPTH)
        found = [self._sequence(depth, fold)]
        while self._take("|"):
            found.append(self._sequence(depth, fold))
        return found[0] if len(found) == 1 else ("any", found)

    def _sequence(self, depth: int, fold: bool) -> Tree:
        parts: List[Tree] = []
        letters = ""  # the literals just before, of which two may fold together
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            start = self.at
            part = self._atom(depth, fold)
            if fold:
                literal = part[0] == "set" and self.at == start + 1
                letters = letters + self.source[start].lower() if literal else ""
                pattern_classes.check_folded(letters)
            while self.at < len(self.source) and self.source[self.at] in "*+?{":
                part = self._repeated(part)
                letters = ""
            parts.append(part)
        return parts[0] if len(parts) == 1 else ("all", parts)

    def _atom(self, depth: int, fold: bool) -> Tree:
        if self.source[self.at] == "(":
            return self._group(depth, fold)
        if self._take("^"):
            # The start of the text, and after each line but a last one that is empty.
            after_line = ("all", [("look", ("set", _NEWLINE), False, True), ("not end",)])
            return ("any", [("start",), after_line])
        if self._take("$"):
            return ("any", [("end",), ("look", ("set", _NEWLINE), True, True)])
        for escape, anchor in (("\\A", "start"), ("\\z", "end")):
            if self._take(escape):
                return (anchor,)
        if self._take("\\b"):
            return self._border()
        if self._take("."):
            return ("set", complement(_NEWLINE))
        if self.source[self.at] in "*+?{":
            raise UnknownPattern("nothing to repeat before `%s`" % self.source[self.at])
        members, self.at = pattern_classes.read_set(self.source, self.at)
        if fold:
            members = pattern_classes.folded(members)
        return ("set", members)

    def _group(self, depth: int, fold: bool) -> Tree:
        opening = next(filter(self._take, _GROUPS), "(")
        if opening == "(" and self.source.startswith("(?", self.at):
            raise UnknownPattern("the group %r" % self.source[self.at : self.at + 4])
        if opening == "(":
            self._take(opening)
        meaning = _GROUPS.get(opening)
        inner = self.choices(depth + 1, fold or meaning == "fold")
        if not self._take(")"):
            raise UnknownPattern("`(` without `)`")
        if isinstance(meaning, tuple):
            return ("look", inner) + meaning
        return ("atomic", inner) if meaning == "atomic" else inner

    def _repeated(self, part: Tree) -> Tree:
        counts = self._counts()
        if counts is None:
            raise UnknownPattern("`{` that is no count at %d" % (self.at + 1))
        least, most = counts
        interval = self.source[self.at - 1] == "}"
        if self._take("?"):
            if interval and least == most:
                raise UnknownPattern("a lazy fixed count")
            return _repeat(part, least, most, "lazy")
        if not interval and self._take("+"):
            return _repeat(part, least, most, "possessive")
        return _repeat(part, least, most, "greedy")

    def _counts(self) -> Optional[Tuple[int, Optional[int]]]:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        end = self.source.find("}", self.at)
        words = self.source[self.at + 1 : end].split(",")
        if end < 0 or len(words) > 2 or not all(word.isdigit() or not word for word in words):
            return None
        if not any(words) or max(map(len, words)) > 4:
            return None
        self.at = end + 1
        least = int(words[0] or "0")
        most = int(words[-1]) if words[-1] else None
        if least > _MOST_COUNT or (most is not None and not least <= most <= _MOST_COUNT):
            raise UnknownPattern("the count {%s}" % ",".join(words))
        return least, most

    def _border(self) -> Tree:
        word = ("set", table("WORD", "L", "M", "Nd", "Pc"))
        sides = []
        for inside in (False, True):
            sides.append(("all", [("look", word, False, inside), ("look", word, True, not inside)]))
        return ("any", sides)

    def _take(self, text: str) -> bool:
        if self.source.startswith(text, self.at):
            self.at += len(text)
            return True
        return False


def _repeat(part: Tree, least: int, most: Optional[int], how: str) -> Tree:
    if _is_anchor(part):
        raise UnknownPattern("an anchor that is repeated")
    if most != 1 and _varies(part):
        again = least == 1 and most is None and part[0] == "repeat" and part[1][0] == "set"
        if again and part[2] == 1 and part[4] == how == "greedy":
            return ("repeat", part[1], 1, None, "greedy")  # X{1,3}+ finds what X+ finds
        # Two that can share the same text in many ways could take for ever on a hostile text.
        raise UnknownPattern("a repeat inside a repeat")
    return ("repeat", part, least, most, how)


def _is_anchor(part: Tree) -> bool:
    if part[0] in ("all", "any"):
        return bool(part[1]) and all(map(_is_anchor, part[1]))
    return part[0] in ("look", "start", "end", "not end")


def _varies(part: Tree) -> bool:
    """Whether it can match texts of several lengths, by repeating."""
    if part[0] == "repeat":
        return part[2] != part[3] or _varies(part[1])
    if part[0] in ("all", "any"):
        return any(map(_varies, part[1]))
    return part[0] in ("look", "atomic") and _varies(part[1])
