"""Two hundred JSON schemas of growing difficulty, the same ones always."""

import random

COUNT = 200
LEVELS = 5  # 40 schemas each
FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "email", "hostname", "ipv6", "duration")
PATTERNS = (
    "^[a-z]{2,8}$",
    r"^\d{3}-\d{4}$",
    "^(GET|PUT|POST)$",
    "^[A-Z][a-z]+( [A-Z][a-z]+){0,2}$",
    r"^#[0-9a-f]{6}$",
    r'^"q\\[n]?"$',
    "^[a-zà-ÿ日本語]{1,5}$",
    "^[^aeiou]{1,6}$",
    "^x{2,4}(y|zz)?$",
)
VALUES = (
    [None, True, False, 0, -7, 1.5, -0.25, 1e3, 12345678901]
    + [
        "",
        "a",
        "a b",
        'say "hi"',
        "back\\slash",
        "tab\tnew\nline",
        "\u0001",
        "é",
        "日本",
        "😀",
        "a/b",
    ]
    + [[1, "x", None], [], {}, {"k": [True, {"d": 0.5}]}]
)
NAMES = [
    "a",
    "id",
    "name",
    "first name",
    "x-y",
    "",
    "é",
    "日本語",
    "😀",
    'qu"ote',
    "back\\slash",
] + ["new\nline", "$ref", "type", "0", "UPPER", "a.b", "tab\t", "items"]


def schema_of(index):
    """The schema of this number; its level is index * LEVELS // COUNT."""
    draw = random.Random(1000 + index)
    level = index * LEVELS // COUNT
    if level == 0:
        return _scalar(draw)
    if level == 1:
        return _array(draw, 0) if index % 2 else _object(draw, 0)
    if level == 2:
        return _any(draw, 2)
    if level == 3:
        return _referring(draw)
    return _recursive(draw) if index % 2 else _any(draw, 4)


def _scalar(draw):
    return draw.choice((_string, _string, _integer, _number, _choice, _plain))(draw)


def _plain(draw):
    kinds = ["null", "boolean", "integer", "string", "number"]
    if draw.random() < 0.5:
        return {"type": draw.choice(kinds[:3])}
    return {"type": sorted(draw.sample(kinds, draw.randrange(1, 4))), "maxLength": 9}


def _choice(draw):
    if draw.random() < 0.4:
        return {"const": draw.choice(VALUES)}
    return {"enum": draw.sample(VALUES, draw.randrange(1, 7))}


def _string(draw):
    kind = draw.randrange(4)
    if kind == 0:
        return {"type": "string", "pattern": draw.choice(PATTERNS)}
    if kind == 1:
        return {"type": "string", "format": draw.choice(FORMATS)}
    least = draw.randrange(5)
    return {"type": "string", "minLength": least, "maxLength": least + draw.randrange(12)}


def _integer(draw):
    low = draw.randrange(-300, 300)
    schema = {"type": "integer"}
    if draw.random() < 0.7:
        schema[draw.choice(("minimum", "exclusiveMinimum"))] = low
    if draw.random() < 0.7:
        high = low + 2 + draw.choice((0, 1, 9, 77, 1234, 98765))
        schema[draw.choice(("maximum", "exclusiveMaximum"))] = high
    return schema


def _number(draw):
    low = draw.choice((-3, 0, -0.5, 0.25, 10, 99.9))
    schema = {"type": "number"}
    if draw.random() < 0.7:
        schema[draw.choice(("minimum", "exclusiveMinimum"))] = low
    if draw.random() < 0.7:
        high = low + draw.choice((1, 0.5, 12.75, 1000))
        schema[draw.choice(("maximum", "exclusiveMaximum"))] = high
    return schema


def _any(draw, depth):
    if depth == 0:
        return _scalar(draw)
    return draw.choice((_array, _object, _object, _either))(draw, depth - 1)


def _array(draw, depth):
    schema = {"type": "array", "items": _any(draw, depth)}
    least = draw.randrange(3)
    if draw.random() < 0.3:
        schema["prefixItems"] = [_any(draw, depth) for _ in range(draw.randrange(1, 4))]
        schema["items"] = draw.choice((False, schema["items"]))
        least = min(least, len(schema["prefixItems"]))
    if draw.random() < 0.5:
        schema["minItems"] = least
    schema["maxItems"] = least + draw.randrange(1, 4)
    return schema


def _object(draw, depth):
    names = draw.sample(NAMES, draw.randrange(1, 6))
    schema = {"type": "object", "properties": {name: _any(draw, depth) for name in names}}
    schema["required"] = [name for name in names if draw.random() < 0.6]
    kind = draw.randrange(4)
    if kind < 3:
        schema["additionalProperties"] = False if kind else _any(draw, 0)
    return schema


def _either(draw, depth):
    if draw.random() < 0.4:
        return {"oneOf": [{"type": "null"}, _object(draw, depth), {"type": "boolean"}]}
    return {"anyOf": [_any(draw, depth) for _ in range(draw.randrange(1, 4))]}


def _referring(draw):
    schema = _object(draw, 2)
    schema["$defs"] = {"a/b": _any(draw, 1), "x~y": _object(draw, 1), "plain": _scalar(draw)}
    for name in sorted(schema["properties"])[:2]:
        target = draw.choice(("a~1b", "x~0y", "plain"))
        schema["properties"][name] = {"$ref": "#/$defs/" + target}
    return schema


def _recursive(draw):
    kind = draw.randrange(3)
    if kind == 0:  # a list
        node = {"type": "object", "properties": {"v": _scalar(draw), "next": {"$ref": "#/$defs/n"}}}
        node["required"] = ["v"]
    elif kind == 1:  # a tree
        node = {"type": "object", "properties": {"v": _scalar(draw)}, "required": ["v"]}
        node["properties"]["kids"] = {
            "type": "array",
            "items": {"$ref": "#/$defs/n"},
            "maxItems": 2,
        }
    else:  # nested arrays
        node = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 2}]}
        node["anyOf"] += [_scalar(draw), {"type": "null"}]
    if kind < 2:
        node["additionalProperties"] = False
    return {"$defs": {"n": node}, "$ref": "#/$defs/n"}
