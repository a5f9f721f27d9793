"""Strings of JSON as trees. Every character has one spelling, so that equal strings look equal."""

import json
import re
from typing import Any, Dict, Iterable, List, Optional

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint.syntax import NOTHING, Branch, Tree, parse, text_tree
from edgeformer.text.code_points import CodePoints, complement, contains, difference, single, union
from edgeformer.text.pattern_classes import UnknownPattern

_ESCAPED = union((0, 0x20), single(ord('"')), single(ord("\\")))
_DAY = "(0[1-9]|1[0-9]|2[0-8])"
_DATE = (
    "[0-9]{4}-((01|03|05|07|08|10|12)-(0[1-9]|[12][0-9]|3[01])|(04|06|09|11)-(0[1-9]|[12][0-9]|30)"
    "|02-" + _DAY + ")"
)
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
_HOST = _LABEL + r"(\." + _LABEL + "){0,5}"
_HEX = "[0-9a-fA-F]"
# A part of what each format allows, all of which is right. Years are those of datetime.
FORMATS = {
    "date": _DATE.replace("[0-9]{4}", "[12][0-9]{3}"),
    "time": _TIME,
    "date-time": _DATE.replace("[0-9]{4}", "[12][0-9]{3}") + "T" + _TIME,
    "duration": "P([0-9]{1,3}W|[0-9]{1,3}D(T[0-9]{1,2}H([0-9]{1,2}M)?)?|T[0-9]{1,2}[HMS])",
    "email": r"[A-Za-z0-9_+-]{1,20}(\.[A-Za-z0-9_+-]{1,20}){0,2}@" + _HOST,
    "hostname": _HOST,
    "ipv4": _BYTE + r"(\." + _BYTE + "){3}",
    "ipv6": "(" + _HEX + "{1,4}:){7}" + _HEX + "{1,4}",
    "uuid": _HEX + "{8}-(" + _HEX + "{4}-){3}" + _HEX + "{12}",
    "uri": "https?://" + _HOST + r"(:[1-9][0-9]{1,3})?(/[A-Za-z0-9._~-]{1,30}){0,6}",
}
_SHORT = re.compile(r"\\.", re.DOTALL)
_ASCII = {"\\d": "[0-9]", "\\D": "[^0-9]", "\\w": "[0-9A-Za-z_]", "\\W": "[^0-9A-Za-z_]"}
ANY: Tree = ("call", "characters")
RULES: Dict[Any, Tree] = {}


def text(value: str) -> Tree:
    """Exactly this string."""
    return _quoted(("all", [_spelled(single(ord(each))) for each in value]))


def of_length(least: int, most: Optional[int]) -> Tree:
    return _quoted(("repeat", ("call", "character"), least, most))


def matching(pattern: str, where: str) -> Tree:
    """With the pattern somewhere in it, unless ^ and $ say otherwise."""
    try:
        branches = parse(_SHORT.sub(_ascii_class, pattern))
    except UnknownPattern as error:
        raise EdgeformerError(f"{where}: the pattern cannot be used: {error}") from None
    return _quoted(("any", [_anywhere(each) for each in branches]))


def of_format(name: Any, where: str) -> Tree:
    if name not in FORMATS:
        raise EdgeformerError(
            f"{where}: the format {name!r} is not known; known: {', '.join(sorted(FORMATS))}"
        )
    return _quoted(_in_json(parse(FORMATS[name])[0].tree))


def other_than(values: Iterable[str]) -> Tree:
    """Any string but these."""
    return _quoted(_other(sorted(set(values))))


def _ascii_class(escape: Any) -> str:
    """In JSON Schema \\d and \\w are of ASCII."""
    return _ASCII.get(escape.group(), escape.group())


def _quoted(tree: Tree) -> Tree:
    return ("all", [text_tree('"'), tree, text_tree('"')])


def _anywhere(branch: Branch) -> Tree:
    before = NOTHING if branch.start else ANY
    after = NOTHING if branch.end else ANY
    return ("all", [before, _in_json(branch.tree), after])


def _in_json(tree: Tree) -> Tree:
    """The tree of a text, of the text as JSON spells it."""
    if tree[0] == "set":
        return _spelled(tree[1])
    if tree[0] == "repeat":
        return ("repeat", _in_json(tree[1])) + tree[2:]
    return (tree[0], [_in_json(each) for each in tree[1]])


def _spelled(members: CodePoints) -> Tree:
    found: List[Tree] = []
    plain = difference(members, _ESCAPED)
    if plain:
        found.append(("set", plain))
    escaped = [*range(0x20), ord('"'), ord("\\")]
    if members[:1] == (0,) and members[1] >= 0x20:
        found.append(("call", "control"))
        escaped = escaped[0x20:]
    for code_point in escaped:
        if contains(members, chr(code_point)):
            found.append(text_tree(json.dumps(chr(code_point))[1:-1]))
    return found[0] if len(found) == 1 else ("any", found)


def _other(values: List[str]) -> Tree:
    """Any characters but these, which have no common beginning taken off yet."""
    firsts = sorted({each[0] for each in values if each})
    taken = union(*(single(ord(each)) for each in firsts)) if firsts else ()
    found = [("all", [_spelled(complement(taken)), ANY])]
    if "" not in values:
        found.append(NOTHING)
    for first in firsts:
        rest = [each[1:] for each in values if each[:1] == first]
        found.append(("all", [_spelled(single(ord(first))), _other(rest)]))
    return ("any", found)


RULES["control"] = ("any", [text_tree(json.dumps(chr(each))[1:-1]) for each in range(0x20)])
RULES["character"] = _spelled(complement(()))
RULES["characters"] = ("repeat", ("call", "character"), 0, None)
