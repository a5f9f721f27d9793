"""A render: the statements of jinja2's syntax tree carried out, their output collected."""

import datetime
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional

from edgeformer.text.template.expressions import Expressions, Scope
from edgeformer.text.template.formats import text_of
from edgeformer.text.template.functions import FUNCTIONS
from edgeformer.text.template.limits import MOST_TEXT, Budget, Refused
from edgeformer.text.template.names import Frame, frame_of, names_in
from edgeformer.text.template.traced import joined
from edgeformer.text.template.values import Function, Loop, Undefined, iterate, length, truth


class Break(Exception):
    """{% break %}"""


class Continue(Exception):
    """{% continue %}"""


class Output:
    """What statements write, in pieces; never more than a text may have."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pieces: List[str] = []
        self._length = 0

    def write(self, piece: str) -> None:
        self._length += len(piece)
        if self._length > MOST_TEXT:
            raise Refused("more than %d characters of output" % MOST_TEXT)
        self._pieces.append(piece)

    def text(self) -> str:
        return joined(self._budget, "", self._pieces)


class Macro(Function):
    """A macro, or the body of a {% call %}, with the names that it sees where it stands."""

    def __init__(self, render: "Render", node: Any, scope: Scope) -> None:
        super().__init__(getattr(node, "name", "caller"), self.invoke)
        self._node = node
        self._scope = scope
        render.budget.step(len(node.args))
        self._mentions = render.mentions(node)
        self._arguments = [arg.name for arg in node.args]
        given = self._arguments + ["caller", "kwargs", "varargs"]
        self._frame = render.frame(node.body, given, node.defaults)

    def invoke(*args: Any, **kwargs: Any) -> str:
        """The text of the body. kwargs and varargs are taken where the body mentions them."""
        self, render, args = args[0], args[1], args[2:]  # unnamed: kwargs may hold any name
        names = self._arguments
        render.budget.step(10 + len(names))
        scope = render.entered(self._frame, self._scope)
        given = dict(zip(names, args))
        for name in names[len(args) :]:
            if name in kwargs:
                given[name] = kwargs.pop(name)
        if "caller" in self._mentions and "caller" not in names:
            given["caller"] = kwargs.pop("caller", Undefined("caller"))
        if "kwargs" in self._mentions:
            given["kwargs"] = kwargs
        elif kwargs:
            raise Refused("macro %s takes no argument %r" % (self.name, next(iter(kwargs))))
        if "varargs" in self._mentions:
            given["varargs"] = args[len(names) :]
        elif len(args) > len(names):
            raise Refused("macro %s takes %d arguments" % (self.name, len(names)))
        scope.names.update({name: value for name, value in given.items() if name not in names})
        defaults = dict(zip(reversed(names), reversed(self._node.defaults)))
        for name in names:
            if name in given:
                scope.names[name] = given[name]
            elif name in defaults:
                scope.names[name] = render.value(defaults[name], scope)
            else:
                scope.names[name] = Undefined("argument %s" % name)
        try:
            return render.captured(self._node.body, scope)
        except (Break, Continue):
            raise Refused("break or continue outside of a loop") from None


class Render(Expressions):
    """One rendering of one template. variables are what the template finds by name."""

    def __init__(
        self, budget: Budget, variables: Dict[str, Any], now: Optional[datetime.datetime] = None
    ) -> None:
        super().__init__(budget)
        self._now = now
        self._mentioned: Dict[int, FrozenSet[str]] = {}
        self._frames: Dict[int, Frame] = {}
        self._scope = Scope(dict(variables), Scope(dict(FUNCTIONS)))

    def now(self) -> datetime.datetime:
        """One reading of the clock a render."""
        if self._now is None:
            self._now = datetime.datetime.now()
        return self._now

    def run(self, template: Any) -> str:
        try:
            return self.captured(template.body, self.block(template.body, self._scope))
        except (Break, Continue):
            raise Refused("break or continue outside of a loop") from None

    def captured(self, body: List[Any], scope: Scope) -> str:
        """What these statements write."""
        out = Output(self.budget)
        self._run(body, scope, out)
        return out.text()

    def mentions(self, node: Any) -> FrozenSet[str]:
        """All names in a part of the tree."""
        if id(node) not in self._mentioned:
            self._mentioned[id(node)] = names_in(node)
        return self._mentioned[id(node)]

    def frame(
        self, body: List[Any], given: Iterable[str] = (), before: Iterable[Any] = ()
    ) -> Frame:
        """The frame of a block; before is what it evaluates on top of its body."""
        if id(body) not in self._frames:
            self._frames[id(body)] = frame_of(given, list(before) + body)
        return self._frames[id(body)]

    def entered(self, frame: Frame, scope: Scope) -> Scope:
        """The scope of a block of this frame, at its start."""
        self.budget.step(len(frame.set_first))
        return scope.inner(frame)

    def block(self, body: List[Any], scope: Scope, given: Iterable[str] = ()) -> Scope:
        return self.entered(self.frame(body, given), scope)

    def _run(self, body: List[Any], scope: Scope, out: Output) -> None:
        for node in body:
            self.budget.step()
            self.line = node.lineno
            kind = type(node).__name__
            method = getattr(self, "_run_" + kind, None)
            if method is None:
                raise Refused("the tag for %s has no place in a chat template" % kind)
            method(node, scope, out)

    def _run_Output(self, node: Any, scope: Scope, out: Output) -> None:
        for one in node.nodes:
            out.write(text_of(self.budget, self.value(one, scope)))

    def _run_If(self, node: Any, scope: Scope, out: Output) -> None:
        for branch in [node] + node.elif_:
            if truth(self.value(branch.test, scope)):
                self._run(branch.body, scope, out)
                return
        self._run(node.else_, scope, out)

    def _run_For(self, node: Any, scope: Scope, out: Output) -> None:
        self._loop(node, self.value(node.iter, scope), scope, out, 0)

    def _loop(self, node: Any, iterable: Any, scope: Scope, out: Output, depth0: int) -> None:
        items = iterate(self.budget, iterable)
        size = length(iterable) if isinstance(iterable, _SIZED) else None
        if node.test is not None:
            items, size = self._filtered(node, items, scope), None
        recurse = self._recursion(node, scope, depth0 + 1) if node.recursive else None
        loop = Loop(items, size, depth0, recurse)
        given = self.mentions(node.target) | {"loop"}
        completed = False
        for item in loop:
            inner = self.block(node.body, scope, given)
            self.assign(node.target, item, inner)
            inner.names["loop"] = loop
            try:
                self._run(node.body, inner, out)
            except Break:
                break
            except Continue:
                continue
            completed = True
        # As jinja2 has it: a loop of which no round came to its end runs its else.
        if not completed:
            self._run(node.else_, self.block(node.else_, scope), out)

    def _filtered(self, node: Any, items: Iterator[Any], scope: Scope) -> Iterator[Any]:
        frame = Frame(self.mentions(node.target), ())
        for item in items:
            inner = scope.inner(frame)
            self.assign(node.target, item, inner)
            if truth(self.value(node.test, inner)):
                yield item

    def _recursion(self, node: Any, scope: Scope, depth0: int) -> Callable[..., str]:
        def recurse(iterable: Any) -> str:
            out = Output(self.budget)
            self._loop(node, iterable, scope, out, depth0)
            return out.text()

        return recurse

    def _run_Assign(self, node: Any, scope: Scope, out: Output) -> None:
        self.assign(node.target, self.value(node.node, scope), scope)

    def _run_AssignBlock(self, node: Any, scope: Scope, out: Output) -> None:
        text: Any = self.captured(node.body, self.block(node.body, scope))
        if node.filter is not None:
            text = self._through(node.filter, text, scope)
        self.assign(node.target, text, scope)

    def _run_FilterBlock(self, node: Any, scope: Scope, out: Output) -> None:
        text = self.captured(node.body, self.block(node.body, scope))
        out.write(text_of(self.budget, self._through(node.filter, text, scope)))

    def _through(self, node: Any, value: Any, scope: Scope) -> Any:
        """value through a chain of filters whose innermost filters nothing yet."""
        if node.node is not None:
            value = self._through(node.node, value, scope)
        return self.filter(node.name, value, *self.arguments(node, scope))

    def _run_With(self, node: Any, scope: Scope, out: Output) -> None:
        given = [name for target in node.targets for name in self.mentions(target)]
        inner = self.block(node.body, scope, given)
        for target, expression in zip(node.targets, node.values):
            self.assign(target, self.value(expression, scope), inner)
        self._run(node.body, inner, out)

    def _run_Scope(self, node: Any, scope: Scope, out: Output) -> None:
        self._run(node.body, self.block(node.body, scope), out)

    def _run_Macro(self, node: Any, scope: Scope, out: Output) -> None:
        scope.names[node.name] = Macro(self, node, scope)

    def _run_CallBlock(self, node: Any, scope: Scope, out: Output) -> None:
        function = self.value(node.call.node, scope)
        args, kwargs = self.arguments(node.call, scope)
        kwargs["caller"] = Macro(self, node, scope)
        out.write(text_of(self.budget, self.call(function, args, kwargs)))

    def _run_Break(self, node: Any, scope: Scope, out: Output) -> None:
        raise Break

    def _run_Continue(self, node: Any, scope: Scope, out: Output) -> None:
        raise Continue


_SIZED = (str, list, tuple, dict, range)
