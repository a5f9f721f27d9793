"""Numbers that a caller gave, whatever type they have: numpy's are as good as Python's."""

import numbers
from typing import Any, Optional

from edgeformer.errors import EdgeformerError


def integer(name: str, value: Any, low: int, high: int, why: str = "") -> int:
    """A plain int; anything but an integer from `low` to `high` is an error that names it."""
    found = whole(value)
    if found is None or not low <= found <= high:
        raise EdgeformerError(
            f"{name} is {value!r}; it must be an integer from {low} to {high}{why}"
        )
    return found


def number(name: str, value: Any, low: float, high: float, allowed: str) -> float:
    """A plain float. `allowed`: the range in words."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not low <= value <= high:  # NaN is never inside
        raise EdgeformerError(f"{name} is {value!r}; it must be a number {allowed}")
    return float(value)


def whole(value: Any) -> Optional[int]:
    """As a plain int; None: it is no integer."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return None
