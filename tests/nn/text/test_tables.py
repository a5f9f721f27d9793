"""The shipped Unicode tables say what the reference does with each character."""

import itertools
import random
import unicodedata

import pytest
from tokenizers import normalizers

from edgeformer.text.code_points import CATEGORIES, CODE_POINTS, category, contains, table
from edgeformer.text.letters import lower_case, normal_form
from tests.text import make_unicode_tables as measure

FORMS = ("NFC", "NFD", "NFKC", "NFKD")


def near_borders():
    """Characters on both sides of every border of every table, and some between."""
    sets = [category(name) for name in CATEGORIES]
    sets += [table(name) for name in ("UNASSIGNED_IN_9", "IDEOGRAPHS", "HAN", "HIRAGANA")]
    found = {each for borders in sets for each in borders}
    found.update(each - 1 for each in list(found) if each)
    found.update(range(0, CODE_POINTS, 997))
    return [
        chr(each) for each in sorted(found.difference(measure.SURROGATES)) if each < CODE_POINTS
    ]


CHARACTERS = near_borders()


def test_categories_are_those_of_the_reference():
    assert len(CHARACTERS) > 6000
    for name in CATEGORIES:
        if name != "Cs":  # surrogates are no text
            expected = measure.matched(r"\p{%s}" % name, CHARACTERS)
            members = category(name)
            assert {each for each in CHARACTERS if contains(members, each)} == expected, name


def test_sets_are_those_of_the_reference():
    for name, expected in measure.measured_sets(CHARACTERS).items():
        members = table(name, *measure.RELATIVE_TO.get(name, ()))
        assert {each for each in CHARACTERS if contains(members, each)} == expected, name


@pytest.mark.parametrize("form", FORMS)
def test_normal_forms_are_those_of_the_reference_for_every_character(form):
    # A line end joins with nothing.
    text = "\n".join(measure.every_character())
    ours = normal_form(form)(text).split("\n")
    assert ours == getattr(normalizers, form)().normalize_str(text).split("\n")


@pytest.mark.parametrize("form", FORMS)
def test_normal_forms_are_those_of_the_reference_for_sequences(form):
    source = random.Random(1)
    marks, made = [], []
    for each in measure.every_character():
        if unicodedata.combining(each):
            marks.append(each)
        if unicodedata.normalize("NFKD", each) != each:
            made.append(each)
    pools = [marks, marks, made, CHARACTERS, "aeiou"]
    ours, theirs = normal_form(form), getattr(normalizers, form)()
    for _ in range(20000):
        text = "".join(source.choice(source.choice(pools)) for _ in range(source.randrange(8)))
        assert ours(text) == theirs.normalize_str(text), ascii(text)


def test_composed_pairs_are_those_of_the_reference():
    ours, theirs = normal_form("NFC"), normalizers.NFC()
    pairs = [unicodedata.normalize("NFD", each) for each in measure.every_character()]
    pairs = [pair for pair in pairs if len(pair) == 2]
    assert len(pairs) > 900
    for first, second in pairs:
        for between in ("", "\u0316", "\u0301", "\u0345", "a"):
            assert ours(first + between + second) == theirs.normalize_str(first + between + second)


def test_lower_case_is_that_of_the_reference_for_every_character():
    ours, theirs = lower_case(), normalizers.Lowercase()
    text = "\n".join(measure.every_character())
    assert ours(text).split("\n") == theirs.normalize_str(text).split("\n")
    for first, second in itertools.product("ΣAaİ ", repeat=2):
        assert ours(first + second) == theirs.normalize_str(first + second)
