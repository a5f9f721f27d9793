"""The tests of jinja2, `value is name(...)`: test(render, value, *args)."""

from typing import Any, Callable, Dict

from edgeformer.text.template.comparison import contains
from edgeformer.text.template.filters import FILTERS
from edgeformer.text.template.formats import text_of
from edgeformer.text.template.limits import Refused
from edgeformer.text.template.operators import COMPARE, remainder
from edgeformer.text.template.text_methods import TEXT_METHODS
from edgeformer.text.template.traced import Html
from edgeformer.text.template.values import Function, Loop, Once, Undefined, View, kind_of


def _remainder(render: Any, value: Any, divisor: Any) -> Any:
    if isinstance(value, str):
        raise Refused("%s is not divisible" % kind_of(value))
    return remainder(render.budget, value, divisor)


def _sequence(render: Any, value: Any) -> bool:
    kinds = (str, list, tuple, dict, range, Undefined)
    return isinstance(value, kinds) and not isinstance(value, View)


def _iterable(render: Any, value: Any) -> bool:
    return isinstance(value, (str, list, tuple, dict, range, Undefined, Once, Loop))


def _compared(name: str) -> Callable[..., bool]:
    return lambda render, value, other: COMPARE[name](render.budget, value, other)


def _all_of(method: str, render: Any, value: Any) -> bool:
    return TEXT_METHODS[method](render.budget, text_of(render.budget, value))


def _named(render: Any, value: Any, known: Dict[str, Any]) -> bool:
    return isinstance(value, str) and value in known


TESTS: Dict[str, Callable[..., Any]] = {
    "boolean": lambda render, value: value is True or value is False,
    "callable": lambda render, value: isinstance(value, (Function, Undefined)),
    "defined": lambda render, value: not isinstance(value, Undefined),
    "divisibleby": lambda render, value, num: _remainder(render, value, num) == 0,
    "escaped": lambda render, value: isinstance(value, Html),
    "even": lambda render, value: _remainder(render, value, 2) == 0,
    "false": lambda render, value: value is False,
    "filter": lambda render, value: _named(render, value, FILTERS),
    "float": lambda render, value: isinstance(value, float),
    "in": lambda render, value, seq: contains(render.budget, seq, value),
    "integer": lambda render, value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": _iterable,
    "lower": lambda render, value: _all_of("islower", render, value),
    "mapping": lambda render, value: isinstance(value, dict),
    "none": lambda render, value: value is None,
    "number": lambda render, value: isinstance(value, (int, float)),
    "odd": lambda render, value: _remainder(render, value, 2) == 1,
    "sameas": lambda render, value, other: value is other,
    "sequence": _sequence,
    "string": lambda render, value: isinstance(value, str),
    "test": lambda render, value: _named(render, value, TESTS),
    "true": lambda render, value: value is True,
    "undefined": lambda render, value: isinstance(value, Undefined),
    "upper": lambda render, value: _all_of("isupper", render, value),
}
for _names, _operator in (
    (("==", "eq", "equalto"), "eq"),
    (("!=", "ne"), "ne"),
    ((">", "gt", "greaterthan"), "gt"),
    ((">=", "ge"), "gteq"),
    (("<", "lt", "lessthan"), "lt"),
    (("<=", "le"), "lteq"),
):
    for _name in _names:
        TESTS[_name] = _compared(_operator)
