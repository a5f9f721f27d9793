"""The filters of jinja2 that chat templates use: filter(render, value, *args, **kwargs).

jinja2's own are not called: those of 3.0.3 and of today differ, and none of them is bounded. Left
out are those for HTML and for human readers, random, and groupby: their use is refused by name.
"""

import html
import math
import re
from typing import Any, Callable, Dict

from edgeformer.text.template import text_methods
from edgeformer.text.template.formats import percent, plain_text, text_of, to_json
from edgeformer.text.template.limits import MOST_BITS, Budget, Refused, padding, whole_number
from edgeformer.text.template.lookup import only_attribute
from edgeformer.text.template.ordering import ORDERING_FILTERS
from edgeformer.text.template.sequences import SEQUENCE_FILTERS
from edgeformer.text.template.traced import Html, cut, derived, joined, mask_of
from edgeformer.text.template.values import (
    Undefined,
    kind_of,
    length,
    truth,
)


def default(render: Any, value: Any, default_value: Any = "", boolean: Any = False) -> Any:
    missing = isinstance(value, Undefined) or (truth(boolean) and not truth(value))
    return default_value if missing else value


def absolute(render: Any, value: Any) -> Any:
    return abs(_number(value))


def integer(render: Any, value: Any, default: Any = 0, base: int = 10) -> Any:
    if isinstance(value, str):
        if len(value) > MOST_BITS:
            raise Refused("a number of %d characters" % len(value))
        try:
            return whole_number(int(str.__str__(value), base))
        except ValueError:
            pass
    elif isinstance(value, int):
        return int(value)
    found = floating(render, value, None)
    return default if found is None or not math.isfinite(found) else whole_number(int(found))


def floating(render: Any, value: Any, default: Any = 0.0) -> Any:
    if isinstance(value, Undefined):
        raise value.refuse()
    if isinstance(value, str) and len(value) > MOST_BITS:
        raise Refused("a number of %d characters" % len(value))
    try:
        return float(value) if isinstance(value, (str, int, float)) else default
    except ValueError:
        return default


def rounded(render: Any, value: Any, precision: int = 0, method: str = "common") -> Any:
    value = _number(value)
    if abs(padding(precision)) > 300:
        raise Refused("rounding to %d digits" % precision)
    if method == "common":
        return round(value, precision)
    if method not in ("ceil", "floor"):
        raise Refused("round knows the methods common, ceil and floor")
    return {"ceil": math.ceil, "floor": math.floor}[method](value * 10**precision) / 10**precision


def _number(value: Any) -> Any:
    if isinstance(value, Undefined):
        raise value.refuse()
    if not isinstance(value, (int, float)):
        raise Refused("%s is no number" % kind_of(value))
    return value


def replace(render: Any, value: Any, old: Any, new: Any, count: Any = None) -> str:
    old, new = plain_text(render.budget, old), plain_text(render.budget, new)
    return text_methods.replace(render.budget, plain_text(render.budget, value), old, new, count)


def indent(render: Any, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    if not isinstance(value, str):
        raise Refused("|indent of %s" % kind_of(value))
    space = width if isinstance(width, str) else " " * padding(width)
    whole = joined(render.budget, "", [plain_text(render.budget, value), "\n"])
    lines = text_methods.splitlines(render.budget, whole)
    pieces = [space if truth(first) else "", lines[0]]
    for line in lines[1:]:
        pieces += ["\n", space if line or truth(blank) else "", line]
    return joined(render.budget, "", pieces)


def truncate(
    render: Any,
    value: Any,
    length: int = 255,
    killwords: Any = False,
    end: str = "...",
    leeway: Any = None,
) -> str:
    if not isinstance(value, (str, Undefined)):
        raise Refused("|truncate of %s" % kind_of(value))
    value = plain_text(render.budget, value)
    leeway = 5 if leeway is None else leeway
    if length < len(end) or leeway < 0:
        raise Refused("truncate to %d characters, with %r at the end" % (length, end[:20]))
    if len(value) <= length + leeway:
        return value
    kept = cut(value, 0, length - len(end))
    if not truth(killwords):
        kept = text_methods.rsplit(render.budget, kept, " ", 1)[0]
    return joined(render.budget, "", [kept, end])


def escape(render: Any, value: Any) -> Html:
    if isinstance(value, Html):
        return value
    plain = plain_text(render.budget, value)
    render.budget.text(6 * len(plain))
    made = html.escape(str.__str__(plain)).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    return Html(made, mask_of(derived(made, plain)))


def safe(render: Any, value: Any) -> Html:
    plain = text_of(render.budget, value)
    return Html(plain, mask_of(plain))


def printf(*args: Any, **kwargs: Any) -> str:
    render, value = args[:2]  # unnamed: kwargs may hold any name
    if args[2:] and kwargs:
        raise Refused("|format takes values by place or by name, not both")
    return percent(render.budget, plain_text(render.budget, value), kwargs or args[2:])


def tojson(render: Any, value: Any, *args: Any, **kwargs: Any) -> str:
    return to_json(render.budget, value, *args, **kwargs)


def wordcount(render: Any, value: Any) -> int:
    value = plain_text(render.budget, value)
    render.budget.text(len(value))
    return sum(1 for _ in re.finditer(r"\w+", value))


def _on_text(method: Callable[..., Any]) -> Callable[..., Any]:
    def apply(render: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        return method(render.budget, plain_text(render.budget, value), *args, **kwargs)

    return apply


def _length(render: Any, value: Any) -> int:
    return length(value)


def _center(budget: Budget, value: str, width: int = 80) -> str:
    return text_methods.TEXT_METHODS["center"](budget, value, width)


FILTERS: Dict[str, Callable[..., Any]] = {
    "abs": absolute,
    "attr": only_attribute,
    "capitalize": _on_text(text_methods.TEXT_METHODS["capitalize"]),
    "center": _on_text(_center),
    "count": _length,
    "d": default,
    "default": default,
    "e": escape,
    "escape": escape,
    "float": floating,
    "format": printf,
    "indent": indent,
    "int": integer,
    "length": _length,
    "lower": _on_text(text_methods.TEXT_METHODS["lower"]),
    "replace": replace,
    "round": rounded,
    "safe": safe,
    "string": _on_text(lambda budget, value: value),
    "title": _on_text(text_methods.title_words),
    "tojson": tojson,
    "trim": _on_text(text_methods.strip),
    "truncate": truncate,
    "upper": _on_text(text_methods.TEXT_METHODS["upper"]),
    "wordcount": wordcount,
}
FILTERS.update(SEQUENCE_FILTERS)
FILTERS.update(ORDERING_FILTERS)
