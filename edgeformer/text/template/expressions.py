"""What an expression of jinja2's syntax tree is worth. Each node costs a step."""

from typing import Any, Dict, FrozenSet, Optional, Tuple

from edgeformer.text.template.conditions import TESTS
from edgeformer.text.template.filters import FILTERS
from edgeformer.text.template.formats import text_of
from edgeformer.text.template.limits import Budget, Refused
from edgeformer.text.template.lookup import attribute, slice_of, subscript
from edgeformer.text.template.names import Frame
from edgeformer.text.template.operators import BINARY, COMPARE, UNARY
from edgeformer.text.template.traced import joined
from edgeformer.text.template.values import (
    Function,
    Loop,
    Method,
    Namespace,
    Undefined,
    as_list,
    key_of,
    kind_of,
    truth,
)


class Scope:
    """The names of a block; those of the blocks around it are seen through it."""

    __slots__ = ("_around", "_own", "names")

    def __init__(
        self,
        names: Dict[str, Any],
        around: "Optional[Scope]" = None,
        own: FrozenSet[str] = frozenset(),
    ) -> None:
        self.names = names
        self._around = around
        self._own = own

    def inner(self, frame: Frame) -> "Scope":
        """The scope of a block in this one, at its start."""
        unset = [name for name in frame.set_first if not self._is_own(name)]
        return Scope({name: Undefined(name) for name in unset}, self, frame.names)

    def _is_own(self, name: str) -> bool:
        scope: Optional[Scope] = self
        while scope is not None and name not in scope._own:
            scope = scope._around
        return scope is not None

    def get(self, name: str) -> Any:
        scope: Optional[Scope] = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope._around
        return Undefined(name)


class Expressions:
    """The half of a render that gives values; statements.Render is the other half."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.line = 1

    def value(self, node: Any, scope: Scope) -> Any:
        """The value of an expression; None, for a part that was left out, is None."""
        if node is None:
            return None
        self.budget.step()
        self.line = node.lineno
        kind = type(node).__name__
        if kind in BINARY:
            left = self.value(node.left, scope)
            return BINARY[kind](self.budget, left, self.value(node.right, scope))
        method = getattr(self, "_" + kind, None)
        if method is None:
            raise Refused("a %s has no place in a chat template" % kind)
        return method(node, scope)

    def filter(self, name: Any, value: Any, args: tuple, kwargs: Dict[str, Any]) -> Any:
        if not isinstance(name, str) or name not in FILTERS:
            raise Refused("there is no filter %r for chat templates" % (name,))
        return FILTERS[name](self, value, *args, **kwargs)

    def test(self, name: Any, value: Any, args: tuple, kwargs: Dict[str, Any]) -> bool:
        if not isinstance(name, str) or name not in TESTS:
            raise Refused("there is no test %r for chat templates" % (name,))
        return TESTS[name](self, value, *args, **kwargs)

    def call(self, function: Any, args: tuple, kwargs: Dict[str, Any]) -> Any:
        if isinstance(function, Undefined):
            raise function.refuse()
        if isinstance(function, Loop):
            if function.recurse is None:
                raise Refused("loop() needs a loop that is marked recursive")
            return function.recurse(*args, **kwargs)
        if isinstance(function, Method):
            return function.function(self, function.owner, *args, **kwargs)
        if isinstance(function, Function):
            return function.function(self, *args, **kwargs)
        raise Refused("%s cannot be called" % kind_of(function))

    def arguments(self, node: Any, scope: Scope) -> Tuple[tuple, Dict[str, Any]]:
        """The arguments of a call, a filter or a test."""
        args = [self.value(arg, scope) for arg in node.args]
        if node.dyn_args is not None:
            args += as_list(self.budget, self.value(node.dyn_args, scope))
        kwargs = {pair.key: self.value(pair.value, scope) for pair in node.kwargs}
        if node.dyn_kwargs is not None:
            more = self.value(node.dyn_kwargs, scope)
            if not isinstance(more, dict) or not all(isinstance(key, str) for key in more):
                raise Refused("** of something that is not a dict of names")
            self.budget.step(len(more))
            kwargs.update({str.__str__(key): item for key, item in more.items()})
        return tuple(args), kwargs

    def assign(self, target: Any, value: Any, scope: Scope) -> None:
        """Give a value to a name, to the names of a tuple, or to an attribute of a namespace."""
        kind = type(target).__name__
        if kind == "Name":
            scope.names[target.name] = value
        elif kind == "NSRef":
            space = scope.get(target.name)
            if not isinstance(space, Namespace):
                raise Refused("%s.%s is set, but no namespace" % (target.name, target.attr))
            space.set(target.attr, value)
        elif kind == "Tuple":
            values = as_list(self.budget, value)
            if len(values) != len(target.items):
                raise Refused("%d names for %d values" % (len(target.items), len(values)))
            for one, item in zip(target.items, values):
                self.assign(one, item, scope)
        else:
            raise Refused("a %s cannot be assigned to" % kind)

    def _Name(self, node: Any, scope: Scope) -> Any:
        return scope.get(node.name)

    def _Const(self, node: Any, scope: Scope) -> Any:
        return node.value

    def _TemplateData(self, node: Any, scope: Scope) -> Any:
        return node.data

    def _List(self, node: Any, scope: Scope) -> list:
        return [self.value(item, scope) for item in node.items]

    def _Tuple(self, node: Any, scope: Scope) -> tuple:
        return tuple(self._List(node, scope))

    def _Dict(self, node: Any, scope: Scope) -> dict:
        return {
            key_of(self.value(pair.key, scope)): self.value(pair.value, scope)
            for pair in node.items
        }

    def _CondExpr(self, node: Any, scope: Scope) -> Any:
        if truth(self.value(node.test, scope)):
            return self.value(node.expr1, scope)
        if node.expr2 is None:
            return Undefined("an if without an else")
        return self.value(node.expr2, scope)

    def _And(self, node: Any, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return self.value(node.right, scope) if truth(left) else left

    def _Or(self, node: Any, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return left if truth(left) else self.value(node.right, scope)

    def _Not(self, node: Any, scope: Scope) -> bool:
        return not truth(self.value(node.node, scope))

    def _Neg(self, node: Any, scope: Scope) -> Any:
        return UNARY["Neg"](self.budget, self.value(node.node, scope))

    def _Pos(self, node: Any, scope: Scope) -> Any:
        return UNARY["Pos"](self.budget, self.value(node.node, scope))

    def _Compare(self, node: Any, scope: Scope) -> bool:
        left = self.value(node.expr, scope)
        for operand in node.ops:
            right = self.value(operand.expr, scope)
            if not COMPARE[operand.op](self.budget, left, right):
                return False
            left = right
        return True

    def _Concat(self, node: Any, scope: Scope) -> str:
        pieces = [text_of(self.budget, self.value(one, scope)) for one in node.nodes]
        return joined(self.budget, "", pieces)

    def _Getattr(self, node: Any, scope: Scope) -> Any:
        return attribute(self, self.value(node.node, scope), node.attr)

    def _Getitem(self, node: Any, scope: Scope) -> Any:
        owner = self.value(node.node, scope)
        if type(node.arg).__name__ == "Slice":
            bounds = [self.value(one, scope) for one in (node.arg.start, node.arg.stop)]
            return slice_of(self, owner, bounds[0], bounds[1], self.value(node.arg.step, scope))
        return subscript(self, owner, self.value(node.arg, scope))

    def _Filter(self, node: Any, scope: Scope) -> Any:
        value = self.value(node.node, scope)
        self.line = node.lineno
        return self.filter(node.name, value, *self.arguments(node, scope))

    def _Test(self, node: Any, scope: Scope) -> bool:
        value = self.value(node.node, scope)
        return self.test(node.name, value, *self.arguments(node, scope))

    def _Call(self, node: Any, scope: Scope) -> Any:
        function = self.value(node.node, scope)
        args, kwargs = self.arguments(node, scope)
        self.line = node.lineno
        return self.call(function, args, kwargs)
