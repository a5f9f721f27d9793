"""A JSON schema as it comes from a caller, checked: what is not understood is never passed over."""

import json
from typing import Any, Callable, Dict, List, Tuple, Union

from edgeformer.errors import EdgeformerError

MOST_DEPTH = 60
# Keywords that hold a schema, a list of schemas, or schemas by name.
_ONE = {"additionalProperties", "additionalItems", "not", "if", "then", "else", "contains"}
_ONE |= {"propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
_SOME = {"allOf", "anyOf", "oneOf", "prefixItems"}
_NAMED = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_NAMED |= {"dependencies"}
_PLAIN = {"type", "enum", "const", "pattern", "format", "required", "dependentRequired"}
_PLAIN |= {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
_PLAIN |= {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains"}
_PLAIN |= {"maxContains", "minProperties", "maxProperties", "$ref", "$id", "$anchor"}
_PLAIN |= {"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$schema"}
# They describe; nothing depends on them.
NOTES = {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}
NOTES |= {"$comment", "$vocabulary", "contentEncoding", "contentMediaType"}

Schema = Union[bool, Dict[str, Any]]


def read_schema(given: Union[str, Schema]) -> str:
    """The JSON text of the schema: an object with keywords that JSON Schema has."""
    if isinstance(given, str):
        try:
            given = json.loads(given, object_pairs_hook=_no_key_twice, parse_constant=_refuse)
        except RecursionError:
            raise EdgeformerError("the JSON schema is nested too deeply") from None
        except ValueError as error:
            raise EdgeformerError(f"the JSON schema is not JSON: {error}") from None
    _check(given, "the JSON schema", 0)
    if given is False:
        raise EdgeformerError("the JSON schema is false: no answer fits it")
    try:
        written = json.dumps({} if given is True else given, ensure_ascii=False, allow_nan=False)
        written.encode("utf-8")
    except UnicodeEncodeError:
        raise EdgeformerError("the JSON schema holds half of a surrogate pair") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise EdgeformerError(f"the JSON schema holds what JSON cannot: {error}") from None
    return written


def _no_key_twice(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise EdgeformerError(f"the JSON schema has the key {twice!r} twice in one object")
    return result


def _refuse(literal: str) -> None:
    raise EdgeformerError(f"the JSON schema holds {literal}, which is not JSON")


def _anything(value: Any) -> bool:
    return True


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return _number(value) and value >= 0 and value % 1 == 0


_IS = dict.fromkeys(("pattern", "format", "$ref", "$id", "$anchor", "$schema"), _text)
_IS.update({key: _number for key in _PLAIN if "inimum" in key or "aximum" in key})
_IS.update({key: _count for key in _PLAIN if key.startswith(("min", "max")) and key not in _IS})
_IS.update(required=_texts, multipleOf=_number, enum=lambda value: isinstance(value, list))
_IS["type"] = lambda value: _text(value) or _texts(value)


def _check(schema: Any, where: str, depth: int) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise EdgeformerError(f"{where} is {type(schema).__name__}, not an object or a boolean")
    if depth > MOST_DEPTH:
        raise EdgeformerError(f"the JSON schema is nested deeper than {MOST_DEPTH} schemas")
    for key, value in schema.items():
        at = f"{where}: {key}"
        if key in _ONE or (key == "items" and not isinstance(value, list)):
            _check(value, at, depth + 1)
        elif key in _SOME or key == "items":  # items of old: one schema for each place
            if not isinstance(value, list):
                raise EdgeformerError(f"{at} is {type(value).__name__}, not a list of schemas")
            for index, each in enumerate(value):
                _check(each, f"{at}[{index}]", depth + 1)
        elif key in _NAMED:
            if not isinstance(value, dict):
                raise EdgeformerError(f"{at} is {type(value).__name__}, not schemas by name")
            for name, each in value.items():
                if not (key == "dependencies" and isinstance(each, list)):
                    _check(each, f"{at}: {name!r}", depth + 1)
        elif not isinstance(key, str):
            raise EdgeformerError(f"{where} has the key {key!r}, which is no string")
        elif key in _PLAIN and not _IS.get(key, _anything)(value):
            raise EdgeformerError(f"{at} is {str(value)[:60]!r}, which it cannot be")
        elif key not in _PLAIN and key not in NOTES:
            raise EdgeformerError(
                f"{where} has the keyword {key!r}, which JSON Schema does not know; correct it, or "
                "leave it out"
            )


def rebuilt(schema: Schema, change: Callable[[Dict[str, Any]], Dict[str, Any]]) -> Schema:
    """A checked schema with `change` done to each schema in it, the inner ones first."""
    if isinstance(schema, bool):
        return schema
    made = {}
    for key, value in schema.items():
        if key in _ONE or (key == "items" and not isinstance(value, list)):
            value = rebuilt(value, change)
        elif key in _SOME or (key == "items" and isinstance(value, list)):
            value = [rebuilt(each, change) for each in value]
        elif key in _NAMED:
            value = {
                name: each if isinstance(each, list) else rebuilt(each, change)
                for name, each in value.items()
            }
        made[key] = value
    return change(made)
