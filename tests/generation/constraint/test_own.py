"""Our own engine against Python's `re`, and against llguidance where that is here."""

import random
import re
import sys

import numpy as np
import pytest

from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint import Constraints, wanted
from edgeformer.generation.constraint.byte_ranges import utf8_ranges
from edgeformer.text import open_tokenizer
from tests import bundles

PATTERNS = [
    "[a-c]{3,6}-[0-9]{4}", "(ab|cd){3}", "(ab)*", "a??b+?", "(é|日|😀){2}", "[^a-z]{2}",
    "(a|b)*abb",
    "x{0,3}(y|zz)?",
    "(a(b(c)?)?)?", "[à-ÿ]+", "((a|bc){2,3}d?)+", ".{3}", "a|b|", "^abc$", "(?i:abx)",
    "a{2,}", "(x*)*", r"[0-9]{2}|[\x20\t]", "[日-語]|[^\\x00-\\x7f]a", "(x+x+)+y",
]  # fmt: skip
LETTERS = "abcdxyz01-é日😀A\n "


@pytest.fixture(scope="module")
def tokenizer():
    return open_tokenizer(Bundle.open(bundles.ROPE))


def started(tokenizer, engine, pattern):
    made = Constraints(tokenizer, frozenset([0]), tokenizer.vocab_size, engine)
    return made.start(wanted(pattern, None), True)


def accepts(follows, tokenizer, text):
    try:
        return follows.may_end([each for letter in text for each in tokenizer.encode(letter)])
    except EdgeformerError:
        return False


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_is_accepted_where_python_finds_that_it_matches(tokenizer, pattern):
    draw = random.Random(7)
    follows = started(tokenizer, "own", pattern)
    for _ in range(150):
        text = "".join(draw.choice(LETTERS) for _ in range(draw.randrange(6)))
        assert accepts(follows, tokenizer, text) == bool(re.fullmatch(pattern, text)), text
    for _ in range(10):
        text = written(follows, tokenizer, draw)
        assert re.fullmatch(pattern, text), text


def written(follows, tokenizer, draw):
    """A text by drawing among what is allowed, until it may end."""
    ids = []
    while not follows.may_end(ids) or draw.random() < 0.7:
        allowed = np.flatnonzero(follows.mask(ids))
        if follows.ended(ids) or (len(ids) > 40 and follows.may_end(ids)):
            break
        ids.append(int(draw.choice(list(allowed))))
        if len(ids) > 400:
            return written(follows, tokenizer, draw)
    return tokenizer.decode(ids)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="llguidance needs Python 3.10")
@pytest.mark.parametrize("pattern", [*PATTERNS, r"\w{2,3}", r"\p{L}+x", r"\s\D"])
def test_masks_are_those_of_llguidance(tokenizer, pattern):
    draw = random.Random(3)
    ours, theirs = (started(tokenizer, each, pattern) for each in ("own", "llguidance"))
    ids = []
    for _ in range(8):
        mask, other = ours.mask(ids), theirs.mask(ids)
        # Where only one text may follow, llguidance cuts it into tokens itself.
        assert np.array_equal(mask, other) or (other.sum() == 1 and mask[other].all())
        assert ours.may_end(ids) == theirs.may_end(ids)
        if not other.any():
            break
        ids.append(int(draw.choice(list(np.flatnonzero(other)))))


def test_byte_ranges_hold_each_character_once():
    draw = random.Random(1)
    for _ in range(100):
        first = draw.randrange(0x110000)
        stop = min(0x110000, first + draw.choice([1, 5, 100, 5000, 100000]))
        ranges = list(utf8_ranges((first, stop)))
        sizes = [np.prod([high - low + 1 for low, high in each]) for each in ranges]
        assert sum(sizes) == sum(not 0xD800 <= each < 0xE000 for each in range(first, stop))
        for code_point in {first, stop - 1, (first + stop) // 2} - set(range(0xD800, 0xE000)):
            data = chr(code_point).encode("utf-8")
            fits = [
                each
                for each in ranges
                if len(each) == len(data) and all(a <= b <= c for (a, c), b in zip(each, data))
            ]
            assert len(fits) == 1


@pytest.mark.parametrize(
    "pattern, says",
    [
        (r"\ba", r"escape .*b"), ("a**", "count right after a count"), ("{", "nothing to repeat"),
        ("a{", "no count"), ("a{3,2}", r"\{3,2\}"), ("(", r"without `\)`"), ("a)", r"`\)` at 2"),
        ("x$y", "`y` at 3"), ("(x$)y", "not at the end"), ("x^", "not at the start"),
        ("a{99999}", "count"), ("(?P<n>a)", "group"), ("(" * 60 + ")" * 60, "more than 50"),
        ("(((a{1,999}b){1,999}c){1,999}d){1,9999}[^\\S\\s]", "no text"),
        ("[a-c]*[^\\S\\s]", "no text"),
    ],
)  # fmt: skip
def test_a_regex_that_cannot_be_held_to_is_named(tokenizer, pattern, says):
    with pytest.raises(EdgeformerError, match=says):
        started(tokenizer, "own", pattern)


def test_counts_in_counts_stay_small(tokenizer):
    follows = started(tokenizer, "own", "((a{1,50}b){1,50}c){1,50}")
    assert accepts(follows, tokenizer, "aabc" * 3)
    assert not accepts(follows, tokenizer, "aabc" * 51)


@pytest.mark.parametrize(
    "schema, says",
    [
        ({"minProperties": 1}, "minProperties.*Python 3.10"),
        ({"type": "string", "pattern": "a", "maxLength": 3}, "only one of"),
        ({"allOf": [{}, {"type": "null"}]}, "2 schemas"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "same type"),
        ({"anyOf": [{}], "type": "null"}, "'type' beside 'anyOf'"),
        ({"$ref": "#"}, "no text"),
        ({"type": "array", "minItems": 100001}, "at most 100000"),
        ({"enum": []}, "no values"),
    ],
)
def test_a_schema_that_cannot_be_held_to_is_named(tokenizer, schema, says):
    made = Constraints(tokenizer, frozenset([0]), tokenizer.vocab_size, "own")
    with pytest.raises(EdgeformerError, match=says):
        made.start(wanted(None, schema), True)
