"""What an answer may be asked to fit, checked before any engine sees it."""

import re

import pytest

from edgeformer import EdgeformerError
from edgeformer.generation.constraint import Wanted, wanted


def test_nothing_asked_for_is_no_constraint():
    assert wanted(None, None) is None


def test_a_schema_is_a_dict_a_boolean_or_json_text():
    assert wanted(None, {"type": "integer"}) == Wanted("JSON schema", '{"type": "integer"}')
    assert wanted(None, '{"type":\n"integer"}') == Wanted("JSON schema", '{"type": "integer"}')
    assert wanted(None, True) == Wanted("JSON schema", "{}")
    assert wanted("a+", None) == Wanted("regex", "a+")


@pytest.mark.parametrize(
    "regex, schema, says",
    [
        ("a", {}, "one of the two"),
        (7, None, "regex is int"),
        ("a" * 100001, None, "100001 characters"),
        ("a\ud800", None, "surrogate"),
        (None, '{"minItems": 1e999}', "minItems is 'inf'"),
        (None, "{", "not JSON"),
        (None, "[1]", "is list, not an object"),
        (None, 7, "is int, not an object"),
        (None, False, "no answer fits"),
        (None, '{"a": NaN}', "NaN"),
        (None, '{"type": "null", "type": "string"}', "'type' twice"),
        (None, {"propertees": {}}, "'propertees'"),
        (None, {"properties": {"a": {"items": {"tipe": "null"}}}}, "'a': items has the .*'tipe'"),
        (None, {"anyOf": [{}, {"enumm": []}]}, r"anyOf\[1\] has the keyword 'enumm'"),
        (None, {"properties": []}, "properties is list"),
        (None, {"anyOf": {}}, "anyOf is dict"),
        (None, {"x-guidance": {"lenient": True}}, "x-guidance"),
        (None, "[" * 100000, "nested too deeply"),
    ],
)
def test_what_cannot_be_asked_for_is_named(regex, schema, says):
    with pytest.raises(EdgeformerError, match=says):
        wanted(regex, schema)


KEYWORDS = (
    "type enum required pattern format minimum exclusiveMaximum multipleOf minItems maxLength $ref"
)


@pytest.mark.parametrize("keyword", KEYWORDS.split())
def test_a_keyword_of_another_kind_is_named(keyword):
    with pytest.raises(EdgeformerError, match=re.escape(keyword) + " is"):
        wanted(None, {keyword: {}})


@pytest.mark.parametrize(
    "schema", [{"const": "\ud800"}, {"const": {1, 2}}, {"enum": [float("nan")]}]
)
def test_a_value_that_json_does_not_have_is_refused(schema):
    with pytest.raises(EdgeformerError, match="the JSON schema holds"):
        wanted(None, schema)


def test_a_schema_nested_without_end_is_refused():
    schema = {"type": "integer"}
    for _ in range(70):
        schema = {"items": schema}
    with pytest.raises(EdgeformerError, match="deeper than 60"):
        wanted(None, schema)


def test_properties_may_be_called_like_anything():
    schema = {"properties": {"tipe": {"type": "string"}, "enumm": True}}
    assert wanted(None, schema).kind == "JSON schema"
