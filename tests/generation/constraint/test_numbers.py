"""Numbers in a range: what may be written lies in it."""

import itertools
import json

import pytest

from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint import Constraints, wanted
from edgeformer.text import open_tokenizer
from tests import bundles
from tests.generation.constraint import ENGINES

VALUES = (-12.5, -1, 0, 0.25, 1, 10)
NEAR = (-0.51, -0.01, 0, 0.01, 0.51)
TEXTS = sorted({"%g" % round(value + near, 2) for value in VALUES for near in NEAR})


@pytest.fixture(scope="module")
def tokenizer():
    return open_tokenizer(Bundle.open(bundles.ROPE))


@pytest.fixture(scope="module", params=ENGINES)
def constraints(request, tokenizer):
    made = Constraints(tokenizer, frozenset([0]), tokenizer.vocab_size, request.param)
    made.takes_all = request.param == "own"  # llguidance leaves 0.2 out of 0 to 0.25
    return made


def accepts(constraints, tokenizer, schema, text):
    follows = constraints.start(wanted(None, schema), True)
    try:
        return follows.may_end([b for each in text for b in tokenizer.encode(each)])
    except EdgeformerError:
        return False


@pytest.mark.parametrize("kind", ["number", "integer"])
@pytest.mark.parametrize("low_name", ["minimum", "exclusiveMinimum"])
@pytest.mark.parametrize("high_name", ["maximum", "exclusiveMaximum"])
def test_no_number_outside_its_range_is_accepted(constraints, tokenizer, kind, low_name, high_name):
    wrong, accepted = [], 0
    for low, high in itertools.combinations(
        (-20, -1, 1, 10, 123) if kind == "integer" else VALUES, 2
    ):
        schema = {"type": kind, low_name: low, high_name: high}
        for text in TEXTS[::2]:
            value = json.loads(text)
            inside = low < value < high
            inside |= low_name == "minimum" and value == low
            inside |= high_name == "maximum" and value == high
            inside &= kind == "number" or isinstance(value, int)
            if accepts(constraints, tokenizer, schema, text):
                accepted += 1
                if not inside:
                    wrong.append((schema, text))
            elif inside and constraints.takes_all:
                wrong.append((schema, text))
    assert wrong == []
    assert accepted > 3


@pytest.mark.parametrize(
    "schema, out",
    [
        ({"exclusiveMinimum": 0, "maximum": 0.5}, "0"),
        ({"minimum": 1.5, "exclusiveMaximum": 2}, "2"),
        ({"exclusiveMinimum": -1, "exclusiveMaximum": -0.5}, "-1"),
    ],
)
def test_a_whole_number_just_outside_a_narrow_range_is_out(constraints, tokenizer, schema, out):
    schema = dict(schema, type="number")
    assert not accepts(constraints, tokenizer, schema, out)
    inside = {"0": "0.25", "2": "1.75", "-1": "-0.75"}[out]
    assert accepts(constraints, tokenizer, schema, inside)
    named = {"properties": {"const": schema}, "required": ["const"], "type": "object"}
    assert not accepts(constraints, tokenizer, named, '{"const":%s}' % out)
