"""Cut normalized text into the words that a model's merges stay within."""

import re
from typing import Any, Callable, List, NamedTuple

from edgeformer.text.byte_letters import spelled
from edgeformer.text.code_points import CodePoints, complement, table, union
from edgeformer.text.cutting import BEHAVIORS, cut
from edgeformer.text.fields import refusal
from edgeformer.text.parts import Part
from edgeformer.text.pattern import Pattern

# From the words so far, and whether the first of them begins the text, to smaller words.
Step = Callable[[List[str], bool], List[str]]

_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # as GPT-2 does
)
_MOST_SPELLINGS = 2  # each makes two characters of one
_SCHEMES = ("always", "first", "never")


class PreTokenizer(NamedTuple):
    """spells: what comes out is yet to be written in byte letters, each word once.

    asks_start: it matters whether a text begins the whole one.
    """

    steps: List[Step]
    spells: bool
    asks_start: bool

    def words(self, text: str, at_start: bool) -> List[str]:
        words = [text]
        for step in self.steps:
            words = step(words, at_start)
        return words


def read_pre_tokenizer(value: Any, path: str) -> PreTokenizer:
    steps = [] if value is None else _read(value, path)
    if steps.count(_spell) > _MOST_SPELLINGS:
        raise refusal(path, "its pre_tokenizer has %d ByteLevel parts" % steps.count(_spell))
    asks_start = any(getattr(step, "asks_start", False) for step in steps)
    if steps and steps[-1] is _spell:
        return PreTokenizer(steps[:-1], True, asks_start)
    return PreTokenizer(steps, False, asks_start)


def punctuation() -> CodePoints:
    """What BERT calls so: any ASCII sign too."""
    return union(table("PUNCTUATION", "P"), (33, 48), (58, 65), (91, 97), (123, 127))


def _read(value: Any, path: str) -> List[Step]:
    part = Part(value, "pre_tokenizer", path)
    if part.type == "Sequence":
        steps: List[Step] = []
        for each in part.parts("pretokenizers"):
            if steps and isinstance(each, dict) and each.get("prepend_scheme") == "first":
                raise part.unknown("prepend_scheme = 'first' after another step")
            steps += _read(each, path)
        return steps
    reader = _READERS.get(part.type)
    if reader is None:
        raise part.unknown()
    steps = reader(part)
    part.finish()
    return steps


def _cutting(pattern: Pattern, behavior: str = "Isolated", invert: bool = False) -> Step:
    def step(words: List[str], at_start: bool) -> List[str]:
        return [
            piece for word in words for piece in cut(word, pattern.spans(word), behavior, invert)
        ]

    return step


def _spell(words: List[str], at_start: bool) -> List[str]:
    return [spelled(word) for word in words]


def _byte_level(part: Part) -> List[Step]:
    steps: List[Step] = []
    part.skip("trim_offsets")
    if part.flag("add_prefix_space", True):
        steps.append(
            lambda words, at_start: [word if word.startswith(" ") else " " + word for word in words]
        )
    if part.flag("use_regex", True):
        steps.append(_cutting(Pattern(_WORDS)))
    return [*steps, _spell]


def _split(part: Part) -> List[Step]:
    kind, pattern = part.pattern()
    if kind == "String":
        pattern = Literal(pattern)
    return [_cutting(pattern, part.choice("behavior", BEHAVIORS), part.flag("invert", False))]


class Literal:
    """Finds a text as it stands."""

    def __init__(self, text: str) -> None:
        self._find = re.compile(re.escape(text)).finditer

    def spans(self, text: str):
        return (match.span() for match in self._find(text))


def _digits(part: Part) -> List[Step]:
    one_by_one = part.flag("individual_digits", False)
    return [_cutting(Pattern.of_sets(table("NUMERIC", "N"), repeated=not one_by_one))]


def _punctuation(part: Part) -> List[Step]:
    behavior = part.choice("behavior", BEHAVIORS, "Isolated")
    return [_cutting(Pattern.of_sets(punctuation()), behavior)]


def _white_space(part: Part) -> List[Step]:
    return [_cutting(Pattern.of_sets(table("SPACES"), repeated=True), "Removed")]


def _word_or_signs(part: Part) -> List[Step]:
    # Not what \w is in a Split: this one knows the joiners that stand inside words.
    word = table("SINGLE_WORD", "L", "M", "Nd", "Pc")
    other = complement(union(word, table("SPACES")))
    return [_cutting(Pattern.of_sets(word, other, repeated=True), "Removed", invert=True)]


def _bert(part: Part) -> List[Step]:
    return [*_white_space(part), _cutting(Pattern.of_sets(punctuation()))]


def _delimiter(part: Part) -> List[Step]:
    return [_cutting(Literal(part.character("delimiter")), "Removed")]


class _Metaspace:
    """A sign for each space, and maybe one in front; as a rule each begins a word."""

    def __init__(self, part: Part) -> None:
        self._mark = part.character("replacement")
        self._prepend = prepend_scheme(part)
        self._between = Literal(self._mark) if part.flag("split", True) else None
        self.asks_start = self._prepend == "first"

    def __call__(self, words: List[str], at_start: bool) -> List[str]:
        mark = self._mark
        pieces = []
        for word in words:
            word = word.replace(" ", mark)
            wanted = self._prepend == "always" or (self.asks_start and at_start)
            if wanted and not word.startswith(mark):
                word = mark + word
            at_start = False
            if self._between is None:
                pieces.append(word)
            else:
                pieces += cut(word, self._between.spans(word), "MergedWithNext")
        return pieces


def _metaspace(part: Part) -> List[Step]:
    return [_Metaspace(part)]


def prepend_scheme(part: Part) -> str:
    """Older files say only whether a space is added."""
    part.skip("str_rep")
    add_prefix_space = part.optional_flag("add_prefix_space")
    scheme = part.choice("prepend_scheme", _SCHEMES, "always")
    if add_prefix_space is False and scheme != "never":
        raise part.unknown("add_prefix_space = False and prepend_scheme = %r" % scheme)
    return scheme


_READERS = {
    "ByteLevel": _byte_level,
    "Split": _split,
    "Digits": _digits,
    "Punctuation": _punctuation,
    "WhitespaceSplit": _white_space,
    "Whitespace": _word_or_signs,
    "BertPreTokenizer": _bert,
    "CharDelimiterSplit": _delimiter,
    "Metaspace": _metaspace,
}
