"""The functions that templates may call: function(render, *args, **kwargs)."""

from typing import Any

from edgeformer.text.template.dates import strftime
from edgeformer.text.template.formats import text_of
from edgeformer.text.template.limits import Raised, Refused
from edgeformer.text.template.traced import derived
from edgeformer.text.template.values import Function, Namespace, as_list, iterate, key_of, kind_of

MOST_RANGE = 100000  # jinja2's own limit


def range_(render: Any, *args: Any) -> range:
    found = range(*args)
    # len() fails beyond 2**63.
    if found and (abs(found[-1] - found[0]) // abs(found.step)) >= MOST_RANGE:
        raise Refused("range of more than %d numbers" % MOST_RANGE)
    return found


def dict_(*args: Any, **kwargs: Any) -> dict:
    render, args = args[0], args[1:]  # unnamed: kwargs may hold any name
    made = {}
    for arg in args[:1]:
        if isinstance(arg, dict):
            render.budget.step(len(arg))
            made.update(arg)
            continue
        for pair in iterate(render.budget, arg):
            pair = as_list(render.budget, pair)
            if len(pair) != 2:
                raise Refused("dict of a list whose items are not pairs")
            made[key_of(pair[0])] = pair[1]
    if len(args) > 1:
        raise Refused("dict takes one value, not %d" % len(args))
    made.update(kwargs)
    return made


def namespace(*args: Any, **kwargs: Any) -> Namespace:
    return Namespace(dict_(*args, **kwargs))


def raise_exception(render: Any, message: Any = "") -> None:
    raise Raised(str.__str__(text_of(render.budget, message))[:2000])


def strftime_now(render: Any, format: Any) -> str:
    if not isinstance(format, str):
        raise Refused("strftime_now of %s" % kind_of(format))
    return derived(strftime(render.budget, render.now(), str.__str__(format)), format)


def _refused(name: str) -> Function:
    def function(render: Any, *args: Any, **kwargs: Any) -> None:
        raise Refused("%s has no place in a chat template" % name)

    return Function(name, function)


FUNCTIONS = {
    "range": Function("range", range_),
    "dict": Function("dict", dict_),
    "namespace": Function("namespace", namespace),
    "raise_exception": Function("raise_exception", raise_exception),
    "strftime_now": Function("strftime_now", strftime_now),
}
for _name in ("lipsum", "cycler", "joiner"):
    FUNCTIONS[_name] = _refused(_name)
