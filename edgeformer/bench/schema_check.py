"""Does a value fit a rule of JSON Schema? The part of it that schema.json is written in.

So Python 3.6 on a board checks what it writes without a package more. The tests hold it against
`jsonschema`. Two ways to one answer: `fits` is quick and says yes or does not know, `errors` says
where the first thing is wrong.
"""

import json
import math
import re
import sys
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

from edgeformer import strictjson as js

Rule = Dict[str, Any]
Fits = Callable[[Any], bool]

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_OTHERS = {"title", "description", "definitions", "$schema"}  # they check nothing
_OTHERS |= {"properties", "required", "additionalProperties", "items"}  # checked member by member


def errors(value: Any, rule: Dict[str, Any], root: Any, at: str) -> Iterator[Tuple[str, str]]:
    """(place, what is wrong there), the outermost first."""
    for word, argument in rule.items():
        if word == "$ref":
            yield from errors(value, _target(argument, root), root, at)
        elif word == "anyOf":
            found = [list(errors(value, choice, root, at)) for choice in argument]
            if all(found):  # the longest path is that of the choice that was meant
                yield max((wrong[0] for wrong in found), key=lambda wrong: len(wrong[0]))
        elif word in _CHECKS and not _CHECKS[word](value, argument):
            yield at, f"is {js.shown(value)}, but {word} is {json.dumps(argument)}"
            return
    if isinstance(value, dict):
        yield from _members(value, rule, root, at)
    elif isinstance(value, list) and "items" in rule:
        for index, item in enumerate(value):
            yield from errors(item, rule["items"], root, f"{at}[{index}]")


def _members(
    value: Dict[str, Any], rule: Dict[str, Any], root: Any, at: str
) -> Iterator[Tuple[str, str]]:
    for key in rule.get("required", ()):
        if key not in value:
            yield at, f"lacks the key {js.shown(key)}"
    known = rule.get("properties", {})
    others = rule.get("additionalProperties", True)
    for key, item in value.items():
        place = f"{at}.{key}" if at else key
        if key in known:
            yield from errors(item, known[key], root, place)
        elif others is False:
            yield at, f"has the unknown key {js.shown(key)}"
        elif others is not True:
            yield from errors(item, others, root, place)


def _is(value: Any, names: Any) -> bool:
    for name in [names] if isinstance(names, str) else names:
        if isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)):
            return not isinstance(value, float) or math.isfinite(value)
    return False


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_CHECKS = {
    "type": _is,
    "enum": lambda value, known: value in known,
    "const": lambda value, wanted: value == wanted,
    "pattern": lambda value, text: not isinstance(value, str) or bool(re.search(text, value)),
    "minimum": lambda value, least: not _number(value) or value >= least,
    "maximum": lambda value, most: not _number(value) or value <= most,
    "minItems": lambda value, least: not isinstance(value, list) or len(value) >= least,
    "maxItems": lambda value, most: not isinstance(value, list) or len(value) <= most,
}
_EXACT = {
    "object": {dict},
    "array": {list},
    "string": {str},
    "boolean": {bool},
    "integer": {int},
    "number": {int, float},
    "null": {type(None)},
}  # type: Dict[str, Set[type]]
_NUMBERS = {int, float}
_OF_NUMBERS = {"type", "minimum", "maximum", "description"}


def fits(rule: Rule, root: Rule) -> Fits:
    """A function that is True of most values that fit, and of none that does not."""
    if "type" in rule and set(rule) <= _OF_NUMBERS:
        return _scalar(*_bounds(rule))
    tests: List[Fits] = []
    for word, argument in rule.items():
        if word == "$ref":
            tests.append(fits(_target(argument, root), root))
        elif word == "anyOf":
            tests.append(_any([fits(choice, root) for choice in argument]))
        elif word in _CHECKS:
            tests.append(_check(_CHECKS[word], argument))
        elif word not in _OTHERS:
            raise AssertionError(f"schema.json uses {word}, which nothing here checks")
    if {"properties", "required", "additionalProperties"} & set(rule):
        tests.append(_object(rule, root))
    if "items" in rule:
        tests.append(_items(rule["items"], root))
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _bounds(rule: Rule) -> Tuple[Set[type], float, float]:
    """(exact types, least, most) of a rule of nothing else. No infinity is a number here."""
    names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    types = set().union(*(_EXACT[name] for name in names))
    most = sys.float_info.max
    return types, max(-most, rule.get("minimum", -most)), min(most, rule.get("maximum", most))


def _scalar(types: Set[type], low: float, high: float) -> Fits:
    def test(value: Any) -> bool:
        kind = type(value)
        return kind in types and (kind not in _NUMBERS or low <= value <= high)

    return test


def _numbers(types: Set[type], low: float, high: float) -> Fits:
    def test(value: Any) -> bool:
        if not isinstance(value, list) or not value:
            return True  # another test's business
        right = types.issuperset(map(type, value)) and all(map(math.isfinite, value))
        return right and low <= min(value) and max(value) <= high

    return test


def _items(rule: Rule, root: Rule) -> Fits:
    if set(rule) <= _OF_NUMBERS and _bounds(rule)[0] <= _NUMBERS:
        return _numbers(*_bounds(rule))
    item = fits(rule, root)
    return lambda value: not isinstance(value, list) or all(map(item, value))


def _object(rule: Rule, root: Rule) -> Fits:
    known = {key: fits(own, root) for key, own in rule.get("properties", {}).items()}
    required, others = set(rule.get("required", ())), rule.get("additionalProperties", True)
    of_others = fits(others, root) if isinstance(others, dict) else lambda value: bool(others)

    def test(value: Any) -> bool:
        if not isinstance(value, dict):
            return True
        right = required <= value.keys()
        return right and all(known.get(key, of_others)(item) for key, item in value.items())

    return test


def _any(choices: List[Fits]) -> Fits:
    return lambda value: any(choice(value) for choice in choices)


def _check(check: Callable[[Any, Any], bool], argument: Any) -> Fits:
    return lambda value: check(value, argument)


def _target(reference: str, root: Rule) -> Rule:
    found: Rule = root["definitions"][reference.rpartition("/")[2]]
    return found
