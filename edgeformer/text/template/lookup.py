"""value.name, value[key] and value[start:stop:step]: all that can be reached from a value.

As jinja2 does it: a name is first an attribute and then a key, a subscript the other way round,
and what is neither is undefined.
"""

from typing import Any, Callable, Dict

from edgeformer.text.template.comparison import equal
from edgeformer.text.template.limits import Refused
from edgeformer.text.template.text_methods import TEXT_METHODS
from edgeformer.text.template.traced import Html, cut
from edgeformer.text.template.values import (
    SCALARS,
    Function,
    Loop,
    Method,
    Namespace,
    Undefined,
    View,
    kind_of,
)

_NOTHING = object()


def attribute(render: Any, value: Any, name: str) -> Any:
    """value.name"""
    found = own_attribute(render, value, name)
    if found is _NOTHING and isinstance(value, dict) and name in value:
        return value[name]
    return _or_undefined(found, value, name)


def subscript(render: Any, value: Any, key: Any) -> Any:
    """value[key]"""
    if isinstance(value, Undefined):
        raise value.refuse()
    if isinstance(value, Html):
        raise Refused("a text that |safe or |escape gave can only be printed")
    if isinstance(value, dict) and isinstance(key, SCALARS) and key in value:
        return value[key]
    numbered = isinstance(value, (str, list, tuple, range)) and not isinstance(value, View)
    if numbered and isinstance(key, int):
        if not -len(value) <= key < len(value):
            return Undefined("item %d of %s" % (key, kind_of(value)))
        if isinstance(value, str):
            at = key % len(value)
            return cut(value, at, at + 1)
        return value[key]
    if not isinstance(key, str):
        return Undefined("item %s" % kind_of(key))
    return _or_undefined(own_attribute(render, value, key), value, key)


def only_attribute(render: Any, value: Any, name: str) -> Any:
    """value|attr(name)"""
    return _or_undefined(own_attribute(render, value, name), value, name)


def getter(render: Any, attribute: Any, default: Any = None) -> Callable[[Any], Any]:
    """A function for item.a.b, where attribute is None, a number or "a.b"."""
    parts = [] if attribute is None else [attribute]
    if isinstance(attribute, str):
        render.budget.text(len(attribute))
        render.budget.step(str.count(attribute, ".") + 1)
        parts = [int(part[:9]) if part.isdigit() else part for part in attribute.split(".")]

    def get(item: Any) -> Any:
        for part in parts:
            render.budget.step()
            item = subscript(render, item, part)
            if default is not None and isinstance(item, Undefined):
                item = default
        return item

    return get


def slice_of(render: Any, value: Any, start: Any, stop: Any, step: Any) -> Any:
    """value[start:stop:step]"""
    if isinstance(value, Undefined):
        raise value.refuse()
    if isinstance(value, (Html, View)) or not isinstance(value, (str, list, tuple, range)):
        raise Refused("%s cannot be sliced" % kind_of(value))
    part = slice(start, stop, step)
    count = len(range(*part.indices(len(value))))
    if isinstance(value, str):
        render.budget.text(count)
        return cut(value, start, stop, step)
    render.budget.step(count)
    return value[part]


def own_attribute(render: Any, value: Any, name: str) -> Any:
    """What the value itself has by this name, or _NOTHING; what it may not have is refused."""
    if isinstance(value, Undefined):
        raise value.refuse()
    if name.startswith("__"):
        raise Refused("access to %s of %s is not allowed" % (name[:60], kind_of(value)))
    if isinstance(value, Namespace):
        return value.attributes.get(name, _NOTHING)
    if isinstance(value, Loop):
        if name in LOOP_METHODS:
            return Method(name, LOOP_METHODS[name], value)
        return value.get(name) if name in Loop.NAMES else _NOTHING
    if isinstance(value, Function):
        return _NOTHING
    for kind, methods in METHODS.items():
        if isinstance(value, kind) and not isinstance(value, (Html, View)):
            if name in methods:
                return Method(name, methods[name], value)
            if hasattr(kind, name):
                raise Refused("%s.%s is not allowed in a chat template" % (kind.__name__, name))
            return _NOTHING
    if hasattr(type(value), name):
        raise Refused("access to %s of %s is not allowed" % (name[:60], kind_of(value)))
    return _NOTHING


def _or_undefined(found: Any, value: Any, name: str) -> Any:
    return Undefined("%s of %s" % (name[:60], kind_of(value))) if found is _NOTHING else found


def _text_method(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: method(args[0].budget, *args[1:], **kwargs)


def _get(render: Any, value: dict, key: Any, default: Any = None) -> Any:
    if not isinstance(key, SCALARS) and not isinstance(key, Undefined):
        raise Refused("%s cannot be the key of a dict" % kind_of(key))
    return value.get(key, default)


def _view(of: Callable[[dict], Any]) -> Callable[..., Any]:
    def method(render: Any, value: dict) -> View:
        render.budget.step(len(value))
        return View(of(value))

    return method


def _copy(render: Any, value: Any) -> Any:
    render.budget.step(len(value))
    return value.copy()


def _index(render: Any, value: Any, item: Any) -> int:
    for index, one in enumerate(value):
        if one is item or equal(render.budget, one, item):
            return index
    raise Refused("index() of an item that is not there")


def _count(render: Any, value: Any, item: Any) -> int:
    return sum(one is item or equal(render.budget, one, item) for one in value)


def _cycle(render: Any, loop: Loop, *values: Any) -> Any:
    if not values:
        raise Refused("loop.cycle() of nothing")
    return values[loop.index0 % len(values)]


def _changed(render: Any, loop: Loop, *values: Any) -> bool:
    changed = not equal(render.budget, loop.changed_from, list(values))
    loop.changed_from = list(values)
    return changed


LOOP_METHODS: Dict[str, Callable[..., Any]] = {"cycle": _cycle, "changed": _changed}
METHODS: Dict[type, Dict[str, Callable[..., Any]]] = {
    str: {name: _text_method(method) for name, method in TEXT_METHODS.items()},
    dict: {
        "get": _get,
        "items": _view(dict.items),
        "keys": _view(dict.keys),
        "values": _view(dict.values),
        "copy": _copy,
    },
    list: {"index": _index, "count": _count, "copy": _copy},
    tuple: {"index": _index, "count": _count},
}
