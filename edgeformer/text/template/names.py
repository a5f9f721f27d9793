"""Which names a block of a template has of its own, and which of them start undefined.

jinja2 settles this before it runs a template: a name that a block sets is the block's own from
the start. Where a loop inside reads it before it is set, it is undefined, even if the caller gave
a value of that name.
"""

from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Set, Tuple


class Frame(NamedTuple):
    """names: all that a block itself reads or sets; set_first: those it sets before it reads."""

    names: FrozenSet[str]
    set_first: Tuple[str, ...]


# The parts of a statement that belong to the block around it. The rest is a block of its own.
_OUTSIDE: Dict[str, Tuple[str, ...]] = {
    "For": ("iter",),
    "CallBlock": ("call",),
    "FilterBlock": ("filter",),
    "With": ("values",),
    "AssignBlock": ("target",),
    "Scope": (),
}


def frame_of(given: Iterable[str], body: Iterable[Any]) -> Frame:
    """The frame of a block with these statements; given are the names it starts with."""
    seen = set(given)
    set_first: List[str] = []
    for node in body:
        _visit(node, seen, set_first)
    return Frame(frozenset(seen), tuple(set_first))


def _visit(node: Any, seen: Set[str], set_first: Optional[List[str]]) -> None:
    kind = type(node).__name__
    if kind == "If":
        _visit(node.test, seen, set_first)
        # What one branch sets may be the caller's in another.
        for part in node.body + node.elif_ + node.else_:
            _visit(part, seen, None)
    elif kind == "Assign":
        _visit(node.node, seen, set_first)
        _visit(node.target, seen, set_first)
    elif kind == "Macro":
        _set(node.name, seen, set_first)
    elif kind in _OUTSIDE:
        for field in _OUTSIDE[kind]:
            parts = getattr(node, field)
            for part in parts if isinstance(parts, list) else [parts]:
                _visit(part, seen, set_first)
    else:
        for part in nodes_in(node):
            if getattr(part, "ctx", None) == "store" and type(part).__name__ == "Name":
                _set(part.name, seen, set_first)
            elif type(part).__name__ in ("Name", "NSRef"):
                seen.add(part.name)


def _set(name: str, seen: Set[str], set_first: Optional[List[str]]) -> None:
    if name not in seen and set_first is not None:
        set_first.append(name)
    seen.add(name)


def nodes_in(node: Any) -> Iterable[Any]:
    """A part of the tree, node by node."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(one.iter_child_nodes())


def names_in(node: Any) -> FrozenSet[str]:
    return frozenset(one.name for one in nodes_in(node) if type(one).__name__ == "Name")
