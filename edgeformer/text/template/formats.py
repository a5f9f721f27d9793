"""Values as text: printed, as JSON, and in the two kinds of format strings."""

import json
import re
from typing import Any, Iterator, List

from edgeformer.text.template.limits import MOST_NESTED, Budget, Refused, padding
from edgeformer.text.template.traced import (
    Html,
    cut,
    derived,
    joined,
    marked,
    trusted,
)
from edgeformer.text.template.values import Undefined, View, kind_of

_PERCENT = re.compile(
    # A width begins with no 0, which is a flag: else the two could share zeros in too many ways.
    r"%(?:\((?P<name>[^()%]*)\))?(?P<flags>[#0\- +]*)(?P<width>(?:[1-9]\d*)?)"
    r"(?:\.(?P<precision>\d*))?"
    r"[hlL]?(?P<kind>[diouxXeEfFgGcrs%])"
)
_BRACES = re.compile(r"\{\{|\}\}|\{(?P<field>[^{}:]*)(?::(?P<spec>[^{}]*))?\}")


def text_of(budget: Budget, value: Any) -> str:
    """What {{ value }} prints. Numbers can spell no marker, so they count as the template's."""
    if isinstance(value, Html):
        return marked(value, value.mask)
    if isinstance(value, str):
        return value
    if isinstance(value, Undefined):
        return trusted("")
    if isinstance(value, (int, float, type(None))):
        return trusted(str(value))
    if isinstance(value, (list, tuple, dict, range)) and not isinstance(value, View):
        measure(budget, value, printed=True)
        text = str(value)
        budget.text(len(text))
        return text
    raise Refused("%s cannot be printed" % kind_of(value))


def plain_text(budget: Budget, value: Any) -> str:
    """A value as text, for filters that work on texts."""
    if isinstance(value, Html):
        raise Refused("a text that |safe or |escape gave can only be printed")
    return text_of(budget, value)


def measure(budget: Budget, value: Any, printed: bool = False, depth: int = 0) -> None:
    """Pay for walking through a value once; refuse what is not data."""
    budget.step()
    if depth > MOST_NESTED:
        raise Refused("values nested more than %d deep" % MOST_NESTED)
    if isinstance(value, str) and not (printed and isinstance(value, Html)):
        budget.work(len(value))
    elif isinstance(value, View):
        raise Refused("%s is no data; use |list" % kind_of(value))
    elif isinstance(value, dict):
        for key, item in value.items():
            measure(budget, key, printed, depth + 1)
            measure(budget, item, printed, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            measure(budget, item, printed, depth + 1)
    elif isinstance(value, Undefined) and not printed:
        raise value.refuse()
    elif not isinstance(value, (int, float, Undefined, range, type(None))):
        raise Refused("%s is no data" % kind_of(value))


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: Any = False,
    indent: Any = None,
    separators: Any = None,
    sort_keys: Any = False,
) -> str:
    """The filter |tojson as transformers has it: no HTML escapes, keys in their order."""
    if isinstance(indent, str):
        budget.text(len(indent) * MOST_NESTED)
    elif indent is not None:
        padding(indent)
    if separators is not None:
        separators = tuple(separators)
        if sum(len(one) for one in separators) > 100:
            raise Refused("JSON separators of more than 100 characters")
    measure(budget, value)
    encoder = json.JSONEncoder(
        ensure_ascii=bool(ensure_ascii),
        indent=indent,
        separators=separators,
        sort_keys=bool(sort_keys),
    )
    pieces: List[str] = []
    length = 0
    for piece in encoder.iterencode(value):
        length += len(piece)
        budget.text(len(piece))
        pieces.append(piece)
    budget.text(length)
    return "".join(pieces)


def percent(budget: Budget, text: str, values: Any) -> str:
    """text % values, with the marks of what goes in."""
    pieces: List[str] = []
    done = 0
    waiting = iter(values if isinstance(values, tuple) else (values,))
    for match in _PERCENT.finditer(text):
        pieces.append(_no_percent(cut(text, done, match.start())))
        done = match.end()
        budget.step()
        if match.group("kind") == "%":
            pieces.append(cut(text, done - 1, done))
        elif match.group("name") is not None:
            if not isinstance(values, dict):
                raise Refused("a format with names needs a dict")
            pieces.append(_percent_one(budget, match, values[match.group("name")]))
        else:
            try:
                pieces.append(_percent_one(budget, match, next(waiting)))
            except StopIteration:
                raise Refused("not enough values for the format") from None
    pieces.append(_no_percent(cut(text, done, len(text))))
    if not isinstance(values, (dict, list)) and next(waiting, waiting) is not waiting:
        raise Refused("more values than the format takes")
    return joined(budget, "", pieces)


def _no_percent(literal: str) -> str:
    if "%" in literal:
        raise Refused("a format with a %% that is not understood: %r" % literal[:40])
    return literal


def _percent_one(budget: Budget, match: Any, value: Any) -> str:
    kind, width, precision = match.group("kind", "width", "precision")
    padding(_small(width))
    padding(_small(precision or ""))
    if kind in "sr" and not isinstance(value, (int, float, type(None))):
        if kind == "r":
            measure(budget, value)
            value = repr(value)
        value = text_of(budget, value)
        if not width and precision is None:
            return value
    sources = [value] if isinstance(value, str) else []
    spec = "%" + match.group("flags") + width
    spec += "" if precision is None else "." + precision
    made = (spec + kind) % (str.__str__(value) if isinstance(value, str) else _plain(value),)
    return derived(made, *sources)


def _plain(value: Any) -> Any:
    if isinstance(value, Undefined):
        raise value.refuse()
    if not isinstance(value, (int, float, type(None))):
        raise Refused("%s in a format for numbers" % kind_of(value))
    return value


def _small(digits: str) -> int:
    """The number that these digits spell; many digits are never a sensible width."""
    return int(digits[:9] or "0") if len(digits) < 10 else 10**9


def braces(budget: Budget, text: str, args: tuple, kwargs: dict) -> str:
    """text.format(*args, **kwargs), for plain fields: none with .attribute, [item] or !r."""
    pieces: List[str] = []
    done = 0
    automatic = iter(args)
    for match in _BRACES.finditer(text):
        budget.step()
        pieces.append(_no_brace(cut(text, done, match.start())))
        done = match.end()
        if match.group() in ("{{", "}}"):
            pieces.append(cut(text, done - 1, done))
        else:
            value = _field(match.group("field"), automatic, args, kwargs)
            spec = cut(text, *match.span("spec")) if match.group("spec") else ""
            pieces.append(_brace_one(budget, value, spec))
    pieces.append(_no_brace(cut(text, done, len(text))))
    return joined(budget, "", pieces)


def _no_brace(literal: str) -> str:
    if "{" in literal or "}" in literal:
        raise Refused("a format with a brace that is not understood: %r" % literal[:40])
    return literal


def _field(field: str, automatic: Iterator[Any], args: tuple, kwargs: dict) -> Any:
    if field == "":
        try:
            return next(automatic)
        except StopIteration:
            raise Refused("not enough values for the format") from None
    if field.isdigit():
        return args[int(field[:9])]
    if not re.match(r"\w+\Z", field):
        raise Refused("a format field may not reach into its value: {%s}" % field[:60])
    return kwargs[field]


def _brace_one(budget: Budget, value: Any, spec: str) -> str:
    for digits in re.findall(r"\d+", spec):
        padding(_small(digits))
    if not spec:
        return text_of(budget, value)
    if isinstance(value, str):
        return derived(format(str.__str__(value), spec), value, spec)
    return derived(format(_plain(value), spec), spec)
