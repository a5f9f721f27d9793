"""The operators of templates. Each pays for its result before it makes it."""

import operator
from typing import Any, Callable, Dict

from edgeformer.text.template import formats
from edgeformer.text.template.comparison import contains, equal
from edgeformer.text.template.limits import MOST_BITS, Budget, Refused, whole_number
from edgeformer.text.template.traced import Html, joined, marked, mask_of
from edgeformer.text.template.values import Undefined, kind_of


def add(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return joined(budget, "", [left, right])
    for kind in (list, tuple):
        if isinstance(left, kind) and isinstance(right, kind):
            budget.step(len(left) + len(right))
            return left + right
    return _numbers("+", operator.add, left, right)


def multiply(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, (str, list, tuple)):
        left, right = right, left
    if isinstance(left, (str, list, tuple)) and isinstance(right, int):
        count = max(0, right)
        if isinstance(left, str):
            budget.text(len(left) * count)
            return marked(str.__mul__(left, count), mask_of(left) * count)
        budget.step(len(left) * count)
        return left * count
    return _numbers("*", operator.mul, left, right)


def power(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        bits = (left.bit_length() - 1) * right  # at least
        if bits > MOST_BITS:
            raise Refused("an integer of %d bits; the limit is %d" % (bits, MOST_BITS))
        if abs(left) < 2:
            right = right % 2 + 2  # -1, 0 and 1 have no large powers, however large the exponent
    return _numbers("**", operator.pow, left, right)


def remainder(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, str) and not isinstance(left, Html):
        return formats.percent(budget, left, right)
    return _numbers("%", operator.mod, left, right)


def negative(budget: Budget, value: Any) -> Any:
    return _numbers("-", operator.sub, 0, value) if not isinstance(value, float) else -value


def positive(budget: Budget, value: Any) -> Any:
    return _numbers("+", operator.add, 0, value) if not isinstance(value, float) else value


def _arithmetic(sign: str, function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda budget, left, right: _numbers(sign, function, left, right)


def _numbers(sign: str, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    for value in (left, right):
        if isinstance(value, Undefined):
            raise value.refuse()
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        raise Refused("%s of %s and %s" % (sign, kind_of(left), kind_of(right)))
    result = function(left, right)
    if not isinstance(result, (int, float)):
        raise Refused("%s of %s and %s is no real number" % (sign, left, right))
    return whole_number(result) if isinstance(result, int) else result


def _ordered(sign: str, function: Callable[[Any, Any], bool]) -> Callable[..., bool]:
    def compare(budget: Budget, left: Any, right: Any) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            budget.work(min(len(left), len(right)) // 16)
            return function(left, right)
        return _numbers(sign, function, left, right)

    return compare


BINARY: Dict[str, Callable[..., Any]] = {
    "Add": add,
    "Sub": _arithmetic("-", operator.sub),
    "Mul": multiply,
    "Div": _arithmetic("/", operator.truediv),
    "FloorDiv": _arithmetic("//", operator.floordiv),
    "Mod": remainder,
    "Pow": power,
}

UNARY = {"Neg": negative, "Pos": positive}

COMPARE: Dict[str, Callable[..., bool]] = {
    "eq": equal,
    "ne": lambda budget, left, right: not equal(budget, left, right),
    "gt": _ordered(">", operator.gt),
    "gteq": _ordered(">=", operator.ge),
    "lt": _ordered("<", operator.lt),
    "lteq": _ordered("<=", operator.le),
    "in": lambda budget, left, right: contains(budget, right, left),
    "notin": lambda budget, left, right: not contains(budget, right, left),
}
