"""A JSON schema as rules for a graph: what each keyword lets an answer be, in one line of JSON."""

import json
from typing import Any, Dict, Hashable, List, Optional, Set, Tuple
from urllib.parse import unquote

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint import json_strings
from edgeformer.generation.constraint.json_numbers import NEVER, Bounds, integers, numbers
from edgeformer.generation.constraint.schema import NOTES
from edgeformer.generation.constraint.syntax import NOTHING, Tree, text_tree

_SPACE: Tree = ("any", [NOTHING, text_tree(" ")])
_COMMA: Tree = ("all", [text_tree(","), _SPACE])
_COLON: Tree = ("all", [text_tree(":"), _SPACE])
_OF_TYPE = {
    "null": set(),
    "boolean": set(),
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "object": {"properties", "required", "additionalProperties"},
}
_LOOSE = NOTES | {"$defs", "definitions", "$schema", "$id"}  # beside what says what an answer is
_ALONE = ("$ref", "allOf", "anyOf", "oneOf")  # nothing else stands beside one of these
_KNOWN = _LOOSE.union({"type", "enum", "const"}, _ALONE, *_OF_TYPE.values())


def rules_of(schema: Dict[str, Any]) -> Dict[Hashable, Tree]:
    """The rule "answer" and those that it calls; what is not understood is an error."""
    writer = _Writer(schema)
    writer.rules["answer"] = writer.schema(schema, "the JSON schema")
    return writer.rules


class _Writer:
    def __init__(self, root: Dict[str, Any]) -> None:
        self.root = root
        self.rules: Dict[Hashable, Tree] = dict(json_strings.RULES)

    def schema(self, schema: Any, where: str) -> Tree:
        if schema is True or (isinstance(schema, dict) and not set(schema) - _LOOSE):
            return self._any_value()
        if schema is False:
            return NEVER
        unknown = sorted(set(schema) - _KNOWN)
        if unknown:
            raise EdgeformerError(
                f"{where} has the keyword {unknown[0]!r}, which cannot be held to on this Python; "
                "leave it out, or run the bundle on Python 3.10 or newer with llguidance"
            )
        for key in _ALONE:
            if key in schema:
                beside = sorted(set(schema) - _LOOSE - {key})
                if beside:
                    raise EdgeformerError(f"{where} has {beside[0]!r} beside {key!r}: write one")
                return self._joined(key, schema[key], where)
        if "enum" in schema or "const" in schema:
            return self._values(schema, where)
        return self._typed(schema, where)

    def _joined(self, key: str, value: Any, where: str) -> Tree:
        if key == "$ref":
            return self._reference(value, where)
        at = f"{where}: {key}"
        if key == "allOf" and len(value) > 1:
            raise EdgeformerError(f"{at} has {len(value)} schemas, and only one can be held to")
        if key == "oneOf":
            seen: Set[str] = set()
            for each in value:
                types = self._types(each, 0)
                if types & seen or (types & {"integer", "number"} and seen & {"integer", "number"}):
                    raise EdgeformerError(
                        f"{at} has schemas of the same type, which may both hold; use anyOf"
                    )
                seen |= types
        found = [self.schema(each, f"{at}[{index}]") for index, each in enumerate(value)]
        return ("any", found)

    def _reference(self, pointer: Any, where: str) -> Tree:
        name = ("$ref", pointer)
        if name not in self.rules:
            target = self._resolved(pointer, where)
            self.rules[name] = NEVER  # while it is written; it may call itself
            self.rules[name] = self.schema(target, f"the JSON schema: {pointer}")
        return ("call", name)

    def _resolved(self, pointer: Any, where: str) -> Any:
        found: Any = self.root
        if pointer != "#" and not pointer.startswith("#/"):
            raise EdgeformerError(f"{where}: $ref {pointer!r} leads out of the schema")
        for part in pointer.split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict) and part in found:
                found = found[part]
            else:
                raise EdgeformerError(f"{where}: $ref {pointer!r} leads nowhere")
        if not isinstance(found, (dict, bool)):
            raise EdgeformerError(f"{where}: $ref {pointer!r} leads to no schema")
        return found

    def _types(self, schema: Any, depth: int) -> Set[str]:
        """Those that an answer may have; more than may really come is safe."""
        if isinstance(schema, dict) and "$ref" in schema and depth < 20:
            return self._types(self._resolved(schema["$ref"], "oneOf"), depth + 1)
        if isinstance(schema, dict) and "type" in schema:
            return set(_listed(schema["type"]))
        if isinstance(schema, dict) and ("enum" in schema or "const" in schema):
            return {_type_of(each) for each in schema.get("enum", [schema.get("const")])}
        return set() if schema is False else set(_OF_TYPE)

    def _values(self, schema: Dict[str, Any], where: str) -> Tree:
        beside = sorted(set(schema) - _LOOSE - {"enum", "const", "type"})
        if beside or ("enum" in schema and "const" in schema):
            raise EdgeformerError(f"{where} has more than its values: leave all else out")
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if not values:
            raise EdgeformerError(f"{where}: enum has no values")
        types = set(_listed(schema.get("type", list(_OF_TYPE))))
        types |= {"integer"} if "number" in types else set()
        return ("any", [_literal(each) for each in values if _type_of(each) in types])

    def _typed(self, schema: Dict[str, Any], where: str) -> Tree:
        types = _listed(schema["type"]) if "type" in schema else list(_OF_TYPE)
        found = []
        for each in types:
            if each not in _OF_TYPE:
                raise EdgeformerError(f"{where} has the type {each!r}, which JSON does not have")
            if each == "integer" and "number" in types:
                continue
            found.append(getattr(self, "_" + each)(schema, where))
        return ("any", found)

    def _null(self, schema: Dict[str, Any], where: str) -> Tree:
        return text_tree("null")

    def _boolean(self, schema: Dict[str, Any], where: str) -> Tree:
        return ("any", [text_tree("true"), text_tree("false")])

    def _integer(self, schema: Dict[str, Any], where: str) -> Tree:
        return integers(_bounds(schema, where))

    def _number(self, schema: Dict[str, Any], where: str) -> Tree:
        return numbers(_bounds(schema, where))

    def _string(self, schema: Dict[str, Any], where: str) -> Tree:
        told = [key for key in ("pattern", "format") if key in schema]
        least, most = _counts(schema, "minLength", "maxLength", where)
        if len(told) > 1 or (told and (least or most is not None)):
            raise EdgeformerError(
                f"{where}: only one of pattern, format and the lengths of a string can be held to; "
                "write the length into the pattern"
            )
        if not told:
            return json_strings.of_length(least, most)
        make = json_strings.matching if told == ["pattern"] else json_strings.of_format
        return make(schema[told[0]], where)

    def _array(self, schema: Dict[str, Any], where: str) -> Tree:
        least, most = _counts(schema, "minItems", "maxItems", where)
        if isinstance(schema.get("items"), list):
            raise EdgeformerError(f"{where}: a list of items is of old; call it prefixItems")
        first = schema.get("prefixItems", [])
        before = [self._rule(each, f"{where}: prefixItems") for each in first]
        item = self._rule(schema.get("items", True), f"{where}: items")
        count = len(before)
        if most is not None and most < least:
            return NEVER
        if most is not None and most <= count:
            tree = NOTHING if least <= most else NEVER
            before = before[:most]
        elif count:
            more = None if most is None else most - count
            tree = ("repeat", ("all", [_COMMA, item]), max(least - count, 0), more)
        else:
            more = None if most is None else most - 1
            rest = ("repeat", ("all", [_COMMA, item]), max(least - 1, 0), more)
            tree = ("all", [item, rest])
            tree = tree if least else ("any", [NOTHING, tree])
        for index in reversed(range(len(before))):
            tree = ("all", [_COMMA if index else NOTHING, before[index], tree])
            tree = tree if index < least else ("any", [NOTHING, tree])
        return ("all", [text_tree("["), tree, text_tree("]")])

    def _object(self, schema: Dict[str, Any], where: str) -> Tree:
        properties = dict(schema.get("properties", {}))
        required = schema.get("required", [])
        more = schema.get("additionalProperties", True)
        for name in required:
            properties.setdefault(name, more)
        pairs = []
        for name, each in properties.items():
            value = self._rule(each, f"{where}: {name!r}")
            pairs.append(("all", [json_strings.text(name), _COLON, value]))
        extra = NEVER
        if more is not False:
            value = self._rule(more, f"{where}: additionalProperties")
            extra = ("all", [json_strings.other_than(properties), _COLON, value])
        needed = [name in required for name in properties]
        return ("all", [text_tree("{"), self._members(pairs, needed, extra), text_tree("}")])

    def _members(self, pairs: List[Tree], needed: List[bool], extra: Tree) -> Tree:
        """Pairs in their order, each once at most, then any number of extra ones."""
        extras: Tree = ("repeat", ("all", [_COMMA, extra]), 0, None)
        after = self._named(extras)  # what follows where something has come before
        inside: Tree = ("any", [NOTHING, ("all", [extra, after])])
        for pair, must in zip(reversed(pairs), reversed(needed)):
            begun = ("all", [pair, after])
            inside = begun if must else ("any", [inside, begun])
            goes_on = ("all", [_COMMA, pair, after])
            after = self._named(goes_on if must else ("any", [after, goes_on]))
        return inside

    def _any_value(self) -> Tree:
        if "value" not in self.rules:
            self.rules["value"] = NEVER
            self.rules["value"] = self._typed({}, "")
        return ("call", "value")

    def _rule(self, schema: Any, where: str) -> Tree:
        """A schema that may stand in several places, written once."""
        tree = self.schema(schema, where)
        return tree if tree[0] == "call" else self._named(tree)

    def _named(self, tree: Tree) -> Tree:
        name = ("part of JSON", len(self.rules))
        self.rules[name] = tree
        return ("call", name)


def _literal(value: Any) -> Tree:
    if isinstance(value, str):
        return json_strings.text(value)
    if isinstance(value, list):
        parts, ends = [_literal(each) for each in value], "[]"
    elif isinstance(value, dict):
        ends = "{}"
        parts = [
            ("all", [json_strings.text(name), _COLON, _literal(each)])
            for name, each in value.items()
        ]
    else:
        return text_tree(json.dumps(value))
    inner = [part for each in parts for part in (_COMMA, each)][1:]
    return ("all", [text_tree(ends[0]), *inner, text_tree(ends[1])])


def _type_of(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == int(value) else "number"
    return {str: "string", list: "array", dict: "object"}[type(value)]


def _listed(value: Any) -> List[str]:
    return value if isinstance(value, list) else [value]


def _counts(schema: Dict[str, Any], low: str, high: str, where: str) -> Tuple[int, Optional[int]]:
    for key in (low, high):
        value = schema.get(key, 0)
        if value > 100000:
            raise EdgeformerError(f"{where}: {key} is {value!r}; it must be at most 100000")
    most = schema.get(high)
    return int(schema.get(low, 0)), None if most is None else int(most)


def _bounds(schema: Dict[str, Any], where: str) -> Bounds:
    for key in _OF_TYPE["number"]:
        value = schema.get(key, 0)
        if abs(value) > 1e15:
            raise EdgeformerError(f"{where}: {key} is {value!r}; it must be from -1e15 to 1e15")
    low, high = schema.get("minimum"), schema.get("maximum")
    low_open, high_open = False, False
    over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if over is not None and (low is None or over >= low):
        low, low_open = over, True
    if under is not None and (high is None or under <= high):
        high, high_open = under, True
    return Bounds(low, high, low_open, high_open)
