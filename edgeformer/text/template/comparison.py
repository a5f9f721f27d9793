"""left == right and item in container, paid for by size."""

from typing import Any, Iterable, Optional, Tuple

from edgeformer.text.template.limits import MOST_NESTED, Budget, Refused
from edgeformer.text.template.values import iterate, key_of, kind_of


def equal(budget: Budget, left: Any, right: Any, depth: int = 0) -> bool:
    """left == right. Lists that hold other lists twice, again and again, are large ones."""
    budget.step()
    if isinstance(left, str) and isinstance(right, str):
        if len(left) == len(right):
            budget.work(len(left) // 16)
        return str.__eq__(left, right)
    if depth > MOST_NESTED:
        raise Refused("values nested more than %d deep" % MOST_NESTED)
    pairs: Optional[Iterable[Tuple[Any, Any]]] = None
    if isinstance(left, dict) and isinstance(right, dict):
        budget.step(len(left))
        if left.keys() != right.keys():
            return False
        pairs = ((left[key], right[key]) for key in left)
    for kind in (list, tuple):
        if isinstance(left, kind) and isinstance(right, kind):
            if len(left) != len(right):
                return False
            pairs = zip(left, right)
    if pairs is None:
        return bool(left == right)
    return all(a is b or equal(budget, a, b, depth + 1) for a, b in pairs)


def contains(budget: Budget, container: Any, item: Any) -> bool:
    """item in container."""
    if isinstance(container, str):
        if not isinstance(item, str):
            raise Refused("only a text can be in a text, not %s" % kind_of(item))
        budget.search(container, item)
        return str.__contains__(container, item)
    if isinstance(container, dict):
        return key_of(item) in container
    return any(item is one or equal(budget, item, one) for one in iterate(budget, container))
