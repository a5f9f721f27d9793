"""The kinds of value a template can meet, and what each gives for a name, a test or a loop.

Beside None, bool, int, float, str, list, tuple, dict and range, as Python has them:
"""

from typing import Any, Callable, Dict, Iterator, List, Optional

from edgeformer.text.template.limits import Budget, Refused
from edgeformer.text.template.traced import Html, cut

SCALARS = (str, int, float, type(None))  # bool is an int


class Undefined:
    """What a name stands for that is not there: false, empty, and an error in any other use."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Undefined"  # in a printed list

    def refuse(self) -> Refused:
        return Refused("%s is undefined" % self.what)


class Namespace:
    """namespace(): the one value whose attributes a template may set."""

    def __init__(self, attributes: Dict[str, Any]) -> None:
        self.attributes: Dict[str, Any] = {}
        for name, value in attributes.items():
            self.set(name, value)

    def set(self, name: str, value: Any) -> None:
        if not isinstance(name, str) or name.startswith("_"):
            raise Refused("a namespace takes no attribute %r" % (name,))
        self.attributes[name] = value


class Once:
    """What filters as map and select give: true, without a length, and read only once."""

    def __init__(self, items: Iterator[Any]) -> None:
        self.items = items


class View(list):
    """What the methods items, keys and values of a dict give: no indexing, no printing."""


class Function:
    """A function that templates can call: function(render, *args, **kwargs)."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function


class Method(Function):
    """A bound method of a text, list or dict: function(render, owner, *args, **kwargs)."""

    def __init__(self, name: str, function: Callable[..., Any], owner: Any) -> None:
        super().__init__(name, function)
        self.owner = owner


class Loop:
    """The variable `loop`. Items are taken one by one: a filtered loop tests each when it comes."""

    NAMES = (
        "index",
        "index0",
        "revindex",
        "revindex0",
        "first",
        "last",
        "length",
        "depth",
        "depth0",
        "previtem",
        "nextitem",
    )
    _NOTHING = object()

    def __init__(
        self,
        items: Iterator[Any],
        length: Optional[int],
        depth0: int = 0,
        recurse: Optional[Callable[..., str]] = None,
    ) -> None:
        self._items = items
        self._length = length
        self._before = self._current = self._after = self._NOTHING
        self.changed_from: List[Any] = []  # what loop.changed() was last asked about
        self.index0 = -1
        self.depth0 = depth0
        self.recurse = recurse

    def __iter__(self) -> "Loop":
        return self

    def __next__(self) -> Any:
        following = self._peek()
        if following is self._NOTHING:
            raise StopIteration
        self.index0 += 1
        self._before, self._current, self._after = self._current, following, self._NOTHING
        return following

    def _peek(self) -> Any:
        if self._after is self._NOTHING:
            self._after = next(self._items, self._NOTHING)
        return self._after

    def get(self, name: str) -> Any:
        """The attribute of this name, one of NAMES."""
        if name in ("previtem", "nextitem"):
            item = self._before if name == "previtem" else self._peek()
            return Undefined("loop.%s" % name) if item is self._NOTHING else item
        if name == "last":
            return self._peek() is self._NOTHING
        if name in ("index", "index0", "first"):
            return {"index": self.index0 + 1, "index0": self.index0, "first": self.index0 == 0}[
                name
            ]
        if name in ("depth", "depth0"):
            return self.depth0 + (name == "depth")
        left = self.length() - self.index0
        return {"length": self.length(), "revindex": left, "revindex0": left - 1}[name]

    def length(self) -> int:
        if self._length is None:
            waiting = self._after is not self._NOTHING
            rest = list(self._items)
            self._items = iter(rest)
            self._length = len(rest) + self.index0 + 1 + waiting
        return self._length


def kind_of(value: Any) -> str:
    """What to call a value in an error."""
    if isinstance(value, Function):
        return "the function %s" % value.name
    if isinstance(value, str):
        return "a text"
    return _KINDS.get(type(value)) or "a %s" % type(value).__name__.lower()


_KINDS = {type(None): "none", View: "a view of a dict", Once: "an iterator", bool: "a boolean"}
_KINDS.update({int: "a number", float: "a number", Undefined: "an undefined value"})


def truth(value: Any) -> bool:
    if isinstance(value, Undefined):
        return False
    if isinstance(value, (str, int, float, list, tuple, dict, range, type(None))):
        return bool(value)
    return True


def length(value: Any) -> int:
    if isinstance(value, Undefined):
        return 0
    if isinstance(value, (str, list, tuple, dict, range)):
        return len(value)
    if isinstance(value, Loop):
        return value.length()
    raise Refused("%s has no length" % kind_of(value))


def iterate(budget: Budget, value: Any) -> Iterator[Any]:
    """The items of a value, each a step."""
    if isinstance(value, Undefined):
        items: Iterator[Any] = iter(())
    elif isinstance(value, Html):
        raise Refused("a text that |safe or |escape gave can only be printed")
    elif isinstance(value, str):
        items = (cut(value, index, index + 1) for index in range(len(value)))
    elif isinstance(value, (list, tuple, range, dict)):
        items = iter(value)
    elif isinstance(value, Once):
        items = value.items
    else:
        raise Refused("%s cannot be looped over" % kind_of(value))
    return _counted(budget, items)


def _counted(budget: Budget, items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        budget.step()
        yield item


def as_list(budget: Budget, value: Any) -> List[Any]:
    if isinstance(value, (list, tuple, range, str, dict)):
        budget.step(len(value))
    return list(iterate(budget, value))


def key_of(value: Any) -> Any:
    """value as a key of a dict."""
    if isinstance(value, (*SCALARS, Undefined)):
        return value
    raise Refused("%s cannot be the key of a dict" % kind_of(value))
