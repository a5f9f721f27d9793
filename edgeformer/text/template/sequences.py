"""Filters that take or give lists: filter(render, value, *args, **kwargs).

Those that are generators in jinja2 give a Once here: true even when empty, and read only once.
"""

from typing import Any, Callable, Dict, Iterator, List

from edgeformer.text.template.formats import plain_text, text_of
from edgeformer.text.template.limits import Refused
from edgeformer.text.template.lookup import getter
from edgeformer.text.template.operators import add
from edgeformer.text.template.traced import cut, joined, marked, mask_of
from edgeformer.text.template.values import (
    Once,
    Undefined,
    as_list,
    iterate,
    kind_of,
    length,
    truth,
)


def first(render: Any, value: Any) -> Any:
    return next(iterate(render.budget, value), Undefined("the first item of nothing"))


def last(render: Any, value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, len(value) - 1, len(value)) if value else Undefined("the last item")
    if isinstance(value, dict):
        return as_list(render.budget, value)[-1] if value else Undefined("the last item")
    if isinstance(value, Once):
        raise Refused("|last of an iterator; use |list|last")
    return value[-1] if length(value) else Undefined("the last item of nothing")


def listed(render: Any, value: Any) -> List[Any]:
    return as_list(render.budget, value)


def reverse(render: Any, value: Any) -> Any:
    if isinstance(value, str):
        return marked(plain_text(render.budget, value)[::-1], mask_of(value)[::-1])
    items = as_list(render.budget, value)
    items.reverse()
    return items if isinstance(value, Once) else Once(iter(items))


def join(render: Any, value: Any, d: Any = "", attribute: Any = None) -> str:
    get = getter(render, attribute)
    items = iterate(render.budget, value)
    pieces = [text_of(render.budget, get(item)) for item in items]
    return joined(render.budget, plain_text(render.budget, d), pieces)


def total(render: Any, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    get = getter(render, attribute)
    if isinstance(start, str):
        raise Refused("sum of texts; use |join")
    for item in iterate(render.budget, value):
        start = add(render.budget, start, get(item))
    return start


def batch(render: Any, value: Any, linecount: int, fill_with: Any = None) -> Once:
    items = as_list(render.budget, value)
    if linecount < 1:
        raise Refused("batches of %d" % linecount)
    rows = [items[at : at + linecount] for at in range(0, len(items), linecount)]
    if rows and fill_with is not None:
        missing = linecount - len(rows[-1])
        render.budget.step(missing)
        rows[-1] += [fill_with] * missing
    return Once(iter(rows))


def sliced(render: Any, value: Any, slices: int, fill_with: Any = None) -> Once:
    items = as_list(render.budget, value)
    render.budget.step(max(0, slices))
    each, longer = divmod(len(items), slices)
    rows = []
    start = 0
    for number in range(slices):
        stop = start + each + (number < longer)
        rows.append(items[start:stop])
        if fill_with is not None and number >= longer:
            rows[-1].append(fill_with)
        start = stop
    return Once(iter(rows))


def _chosen(wanted: bool, by_attribute: bool) -> Callable[..., Once]:
    """select, reject, selectattr and rejectattr."""

    def choose(render: Any, value: Any, *args: Any, **kwargs: Any) -> Once:
        if by_attribute and not args:
            raise Refused("selectattr without the name of an attribute")
        get = getter(render, args[0] if by_attribute else None)
        args = args[by_attribute:]

        def passes(item: Any) -> bool:
            if not args:
                return truth(get(item)) == wanted
            return truth(render.test(args[0], get(item), args[1:], kwargs)) == wanted

        return Once(item for item in _if_true(render, value) if passes(item))

    return choose


def _if_true(render: Any, value: Any) -> Iterator[Any]:
    return iterate(render.budget, value) if truth(value) else iter(())


def items(render: Any, value: Any) -> Once:
    if isinstance(value, Undefined):
        return Once(iter(()))
    if not isinstance(value, dict):
        raise Refused("|items of %s" % kind_of(value))
    render.budget.step(len(value))
    return Once(iter(list(value.items())))


def map_(render: Any, value: Any, *args: Any, **kwargs: Any) -> Once:
    if not args and "attribute" in kwargs:
        change = getter(render, kwargs.pop("attribute"), kwargs.pop("default", None))
        if kwargs:
            raise Refused("map takes no argument %r" % next(iter(kwargs)))
    elif args:
        name, rest = args[0], args[1:]

        def change(item: Any) -> Any:
            return render.filter(name, item, rest, kwargs)
    else:
        raise Refused("map without the name of a filter")
    return Once(change(item) for item in _if_true(render, value))


SEQUENCE_FILTERS: Dict[str, Callable[..., Any]] = {
    "batch": batch,
    "first": first,
    "items": items,
    "join": join,
    "last": last,
    "list": listed,
    "map": map_,
    "reject": _chosen(False, False),
    "rejectattr": _chosen(False, True),
    "reverse": reverse,
    "select": _chosen(True, False),
    "selectattr": _chosen(True, True),
    "slice": sliced,
    "sum": total,
}
