"""Patterns are understood as Oniguruma means them, or refused with what is not understood."""

import time

import pytest

from edgeformer.text.pattern import Pattern
from edgeformer.text.pattern_classes import UnknownPattern

# Where our reading of Oniguruma differs from what Python's re would make of the same pattern. The
# reference itself is asked in tests/nn/text/test_parts.py.
FOUND = [
    (r"\p{L}+", "a²é1漢_", ["a", "é", "漢"]),
    (r"\P{L}+|\p{^N}", "a1b", ["a", "1", "b"]),
    (r"\w+", "é_1 ²\u200d", ["é_1", "²"]),
    (r"\d+", "12٣²", ["12٣"]),
    (r"\h+", "xAf9g", ["Af9"]),
    (r"\s", "a\u180e\u3000\x1c", ["\u3000"]),
    (r"[a-z&&[^aeiou]]+", "hello", ["h", "ll"]),
    (r"[^(\s|[.,])]+", "a(b|c.d", ["a", "b", "c", "d"]),
    (r"[[:punct:]]", "a+!", ["+", "!"]),
    (r"(?i:'s|k)", "'S 'ſ K k", ["'S", "'ſ", "K", "k"]),
    (r"a++", "aaab", ["aaa"]),
    (r"a++a", "aaa", []),
    (r"a?+a", "aa", ["aa"]),
    (r"(?>a|ab)c", "abc", []),
    (r"\p{N}{1,3}+", "12345", ["12345"]),
    (r"a{2}+", "aaaaa", ["aaaa"]),
    (r"a{,2}", "aaa", ["aa", "a"]),
    (r"a{1,2}?", "aa", ["a", "a"]),
    (r"[a-a]", "ab", ["a"]),
    (r"$", "a\nb\n", ["", "", ""]),
    (r"^", "a\nb\n", ["", ""]),
    (r"x*", "axxb", ["", "xx", ""]),
    (r".", "a\nb", ["a", "b"]),
    (r"\b\w", "ab cd", ["a", "c"]),
    (r"\x{1F600}|\u0041|\x42", "😀AB", ["😀", "A", "B"]),
    (r"(?<=\s)\S+", "ab cd", ["cd"]),
    (r"(ab|a)+?", "aab", ["a", "ab"]),
]


@pytest.mark.parametrize("pattern, text, found", FOUND)
def test_a_pattern_finds_what_oniguruma_finds(pattern, text, found):
    spans = list(Pattern(pattern).spans(text))
    assert [text[start:end] for start, end in spans if start < end or pattern in "$^"] == [
        each for each in found if each or pattern in "$^"
    ]


@pytest.mark.parametrize(
    "pattern, reason",
    [
        ("[a", "`[` without `]`"),
        ("a)", "`)` without `(` at 2"),
        ("(a", "`(` without `)`"),
        ("*a", "nothing to repeat before `*`"),
        ("a{3,1}", "the count {3,1}"),
        ("a{1,9999}", "the count {1,9999}"),
        ("a{x}", "`{` that is no count at 2"),
        ("a{2}?", "a lazy fixed count"),
        ("(?<n>a)", "the group '(?<n'"),
        ("(?x:a)", "the group '(?x:'"),
        ("(?i)a", "the group '(?i)'"),
        (r"\1", r"the escape '\\1'"),
        (r"\K", r"the escape '\\K'"),
        (r"\R", r"the escape '\\R'"),
        ("\\", r"the escape '\\'"),
        (r"\p{Klingon}", r"the property \p{Klingon}"),
        (r"\x{110000}", r"the character \x{110000}"),
        (r"\ud800", r"the character \ud800"),
        ("[]a]", "an empty class"),
        ("[z-a]", "the range 'z-a'"),
        (r"[a-\d]", r"the range 'a-\\d'"),
        ("[--a]", "a range from `-`"),
        ("[a&&]", "nothing beside &&"),
        ("[[:foo:]]", "the class [:foo:]"),
        ("(?i:é)", "(?i: around more than ASCII"),
        (r"(?i:\p{L})", "(?i: around more than ASCII"),
        ("(?i:st)", "(?i: with 'st'"),
        ("(a*)*", "a repeat inside a repeat"),
        ("(a+b?)+", "a repeat inside a repeat"),
        (r"\b+", "an anchor that is repeated"),
        ("(?=a)+", "an anchor that is repeated"),
        ("a*b*a*b*a", "more than 3 repeats without end"),
        ("(?<=a+)b", "look-behind"),
        ("(" * 60 + ")" * 60, "more than 50 groups inside each other"),
        ("[" * 30 + "a" + "]" * 30, "more than 20 classes inside each other"),
        ("a" * 5000, "5000 characters"),
    ],
)
def test_what_is_not_understood_is_named(pattern, reason):
    with pytest.raises(UnknownPattern) as raised:
        Pattern(pattern)
    assert reason in str(raised.value)


@pytest.mark.parametrize("text", ["a", " ", "1", "\n", "'", "é", "A"])
def test_a_long_run_of_one_character_ends_within_reason(text):
    """At worst with the square of its length (here "A"), as in the reference: a third of a second
    on Python 3.6. What grew faster would not be done in ten."""
    pattern = Pattern(
        r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{M}]*[\p{Ll}\p{M}]+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    started = time.time()
    assert sum(1 for _ in pattern.spans(text * 4000)) >= 0
    assert time.time() - started < 10
