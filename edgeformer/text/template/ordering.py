"""Filters that put items in order or tell them apart: filter(render, value, *args, **kwargs)."""

from typing import Any, Callable, Dict, Iterator, List

from edgeformer.text.template import text_methods
from edgeformer.text.template.limits import Budget, Refused
from edgeformer.text.template.lookup import getter
from edgeformer.text.template.values import (
    Once,
    Undefined,
    as_list,
    iterate,
    key_of,
    kind_of,
    truth,
)


def unique(render: Any, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Once:
    key = _sort_key(render, attribute, case_sensitive)

    def found() -> Iterator[Any]:
        seen: set = set()
        for item in iterate(render.budget, value):
            one = key_of(key(item))
            if one not in seen:
                seen.add(one)
                yield item

    return Once(found())


def sort(
    render: Any,
    value: Any,
    reverse: Any = False,
    case_sensitive: Any = False,
    attribute: Any = None,
) -> List[Any]:
    names = [attribute]
    if isinstance(attribute, str):
        names = text_methods.split(render.budget, attribute, ",")
    keys = [_sort_key(render, name, case_sensitive) for name in names]
    found = as_list(render.budget, value)
    ranks = [[key(item) for key in keys] for item in found]
    return _in_order(render.budget, found, ranks, reverse)


def dictsort(
    render: Any, value: Any, case_sensitive: Any = False, by: str = "key", reverse: Any = False
) -> List[Any]:
    if not isinstance(value, dict) or by not in ("key", "value"):
        raise Refused("dictsort sorts a dict, by key or by value")
    rank = _sort_key(render, 0 if by == "key" else 1, case_sensitive)
    pairs = list(value.items())
    return _in_order(render.budget, pairs, [rank(pair) for pair in pairs], reverse)


def _extreme(sign: int) -> Callable[..., Any]:
    def choose(render: Any, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
        key = _sort_key(render, attribute, case_sensitive)
        found = as_list(render.budget, value)
        if not found:
            return Undefined("the smallest or largest item of nothing")
        ranks = [key(item) for item in found]
        _pay_for_order(render.budget, ranks)
        best = (min if sign < 0 else max)(range(len(found)), key=ranks.__getitem__)
        return found[best]

    return choose


def _in_order(budget: Budget, found: List[Any], ranks: List[Any], reverse: Any) -> List[Any]:
    _pay_for_order(budget, ranks)
    order = sorted(range(len(found)), key=ranks.__getitem__, reverse=truth(reverse))
    return [found[index] for index in order]


def _pay_for_order(budget: Budget, ranks: List[Any]) -> None:
    """Each item is compared about log2(n) times, over all of its parts."""
    if len(ranks) < 2:
        return
    rounds = len(ranks).bit_length()
    waiting = list(ranks)
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            budget.work(len(one) // 16 * rounds)
        elif isinstance(one, (list, tuple)):
            budget.step(rounds * len(one))
            waiting.extend(one)
        elif not isinstance(one, (int, float, Undefined, type(None))):
            raise Refused("%s cannot be put in order" % kind_of(one))


def _sort_key(render: Any, attribute: Any, case_sensitive: Any) -> Callable[[Any], Any]:
    get = getter(render, attribute)

    def key(item: Any) -> Any:
        found = get(item)
        if isinstance(found, str) and not truth(case_sensitive):
            return text_methods.TEXT_METHODS["lower"](render.budget, found)
        return found

    return key


ORDERING_FILTERS: Dict[str, Callable[..., Any]] = {
    "dictsort": dictsort,
    "max": _extreme(1),
    "min": _extreme(-1),
    "sort": sort,
    "unique": unique,
}
