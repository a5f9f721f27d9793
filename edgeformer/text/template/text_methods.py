"""The methods of texts that templates may call: method(render, text, *args, **kwargs)."""

import re
from typing import Any, Callable, Dict, List, Optional

from edgeformer.text.template import formats
from edgeformer.text.template.limits import Budget, Refused, padding
from edgeformer.text.template.traced import cut, derived, joined, laid_out, marked, mask_of, words
from edgeformer.text.template.values import as_list, kind_of


def strip(budget: Budget, text: str, chars: Optional[str] = None) -> str:
    return rstrip(budget, lstrip(budget, text, chars), chars)


def lstrip(budget: Budget, text: str, chars: Optional[str] = None) -> str:
    _pay_for_set(budget, text, chars)
    return cut(text, len(text) - len(str.lstrip(text, chars)), len(text))


def rstrip(budget: Budget, text: str, chars: Optional[str] = None) -> str:
    _pay_for_set(budget, text, chars)
    return cut(text, 0, len(str.rstrip(text, chars)))


def _pay_for_set(budget: Budget, text: str, chars: Optional[str]) -> None:
    """Each character that goes is looked up in chars."""
    budget.text(len(text))
    if chars is not None:
        budget.search(text, chars)


def removeprefix(budget: Budget, text: str, prefix: str) -> str:
    budget.text(len(text))
    return cut(text, len(prefix) if str.startswith(text, prefix) else 0, len(text))


def removesuffix(budget: Budget, text: str, suffix: str) -> str:
    budget.text(len(text))
    gone = len(suffix) if str.endswith(text, suffix) else 0
    return cut(text, 0, len(text) - gone)


def split(budget: Budget, text: str, sep: Optional[str] = None, maxsplit: int = -1) -> List[str]:
    _pay_to_find(budget, text, sep or "")
    return _pieces(budget, text, sep, str.split(text, sep, maxsplit))


def rsplit(budget: Budget, text: str, sep: Optional[str] = None, maxsplit: int = -1) -> List[str]:
    _pay_to_find(budget, text, sep or "")
    return _pieces(budget, text, sep, str.rsplit(text, sep, maxsplit))


def _pay_to_find(budget: Budget, text: str, wanted: str) -> None:
    budget.text(len(text))
    budget.search(text, wanted)


def _pieces(budget: Budget, text: str, sep: Optional[str], pieces: List[str]) -> List[str]:
    budget.step(len(pieces))
    return words(text, pieces) if sep is None else laid_out(text, pieces, len(sep))


def splitlines(budget: Budget, text: str, keepends: Any = False) -> List[str]:
    budget.text(len(text))
    lines = str.splitlines(text, True)
    budget.step(len(lines))
    found = laid_out(text, lines, 0)
    return found if keepends else [cut(one, 0, len(str.splitlines(one)[0])) for one in found]


def partition(budget: Budget, text: str, sep: str) -> tuple:
    _pay_to_find(budget, text, sep)
    return tuple(laid_out(text, str.partition(text, sep), 0))


def rpartition(budget: Budget, text: str, sep: str) -> tuple:
    _pay_to_find(budget, text, sep)
    return tuple(laid_out(text, str.rpartition(text, sep), 0))


def replace(budget: Budget, text: str, old: str, new: str, count: Optional[int] = None) -> str:
    """text with new for old; without an old, new goes between all characters."""
    count = -1 if count is None else count
    if count == 0:
        return text
    if old == "":
        budget.step(len(text))
        pieces = [""] + [cut(text, at, at + 1) for at in range(len(text))] + [""]
        if 0 < count <= len(text):
            pieces = pieces[:count] + [cut(text, count - 1, len(text))]
        return joined(budget, new, pieces)
    return joined(budget, new, split(budget, text, old, count))


def join(budget: Budget, text: str, items: Any) -> str:
    items = as_list(budget, items)
    for item in items:
        if not isinstance(item, str):
            raise Refused("join takes texts, not %s" % kind_of(item))
    return joined(budget, text, items)


def _cased(name: str) -> Callable[..., str]:
    """A method that changes letters: marks stay where they are unless the length changes."""

    def method(budget: Budget, text: str) -> str:
        budget.text(len(text))
        made = getattr(str, name)(text)
        return marked(made, mask_of(text)) if len(made) == len(text) else derived(made, text)

    return method


def _asked(name: str) -> Callable[..., Any]:
    """A method that answers a question about the whole text."""

    def method(budget: Budget, text: str) -> Any:
        budget.work(len(text))
        return getattr(str, name)(text)

    return method


def _searched(name: str) -> Callable[..., Any]:
    """A method that looks for a text, or for one of a tuple of texts."""

    def method(budget: Budget, text: str, wanted: Any, *span: Any) -> Any:
        for one in wanted if isinstance(wanted, tuple) else (wanted,):
            budget.step()
            if isinstance(one, str):
                budget.search(text, one)
        return getattr(str, name)(text, wanted, *span)

    return method


def _padded(name: str) -> Callable[..., str]:
    def method(budget: Budget, text: str, width: int, *fill: str) -> str:
        padding(width)
        budget.text(max(len(text), width))
        return derived(getattr(str, name)(text, width, *fill), text, *fill)

    return method


def expandtabs(budget: Budget, text: str, tabsize: int = 8) -> str:
    budget.text(len(text) + str.count(text, "\t") * max(0, padding(tabsize)))
    return derived(str.expandtabs(text, tabsize), text)


def isascii(budget: Budget, text: str) -> bool:
    budget.work(len(text))
    return max(text, default="") < "\x80"


def format_(*args: Any, **kwargs: Any) -> str:
    budget, text = args[:2]  # unnamed: kwargs may hold any name
    return formats.braces(budget, text, args[2:], kwargs)


def title_words(budget: Budget, text: str) -> str:
    """The filter |title, which starts words at other places than the method."""
    budget.text(len(text))
    parts = [part for part in re.split(r"([-\s({\[<]+)", text) if part]
    budget.step(len(parts))
    made = "".join([part[0].upper() + part[1:].lower() for part in parts])
    return marked(made, mask_of(text)) if len(made) == len(text) else derived(made, text)


TEXT_METHODS: Dict[str, Callable[..., Any]] = {
    "strip": strip,
    "lstrip": lstrip,
    "rstrip": rstrip,
    "removeprefix": removeprefix,
    "removesuffix": removesuffix,
    "split": split,
    "rsplit": rsplit,
    "splitlines": splitlines,
    "partition": partition,
    "rpartition": rpartition,
    "replace": replace,
    "join": join,
    "expandtabs": expandtabs,
    "isascii": isascii,
    "format": format_,
}
TEXT_METHODS.update(
    (name, _cased(name))
    for name in ("upper", "lower", "title", "capitalize", "swapcase", "casefold")
)
TEXT_METHODS.update(
    (name, _asked(name))
    for name in (
        "isalnum",
        "isalpha",
        "isdecimal",
        "isdigit",
        "isidentifier",
        "islower",
        "isnumeric",
        "isprintable",
        "isspace",
        "istitle",
        "isupper",
    )
)
TEXT_METHODS.update(
    (name, _searched(name))
    for name in ("startswith", "endswith", "find", "rfind", "index", "rindex", "count")
)
TEXT_METHODS.update((name, _padded(name)) for name in ("center", "ljust", "rjust", "zfill"))
