"""Rules as a graph of bytes: what a text may be, one byte after another."""

from typing import Any, Dict, FrozenSet, Hashable, List, Tuple

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint.byte_ranges import Range, utf8_ranges
from edgeformer.generation.constraint.syntax import Tree

MOST_NODES = 300000
_FEW = 4  # borders of a set that is written out wherever it stands

Rules = Dict[Hashable, Tree]


class Graph:
    """Nodes, and ways from one to another: by a byte, by nothing, or through a rule.

    A rule has one start and one end, and ways only among its own nodes. `alive` are the nodes from
    which their rule's end can be reached with the bytes that the vocabulary has.
    """

    def __init__(self, rules: Rules, start: Hashable, alphabet: FrozenSet[int]) -> None:
        self.by_byte: List[List[Tuple[int, int, int]]] = []  # (first, last, to)
        self.by_nothing: List[List[int]] = []
        self.by_rule: List[List[Tuple[Any, int]]] = []  # (name, to)
        self.ends: Dict[Hashable, int] = {}
        self.starts: Dict[Hashable, int] = {}
        self._rules = dict(rules)
        self._waiting = [start]
        self._name(start)
        while self._waiting:
            name = self._waiting.pop()
            self._add(self._rules[name], self.starts[name], self.ends[name])
        self.is_end = [False] * len(self.by_byte)
        for end in self.ends.values():
            self.is_end[end] = True
        self.alive = self._alive(alphabet)
        self.start = self.starts[start]
        self.end = self.ends[start]

    def _node(self) -> int:
        if len(self.by_byte) >= MOST_NODES:
            raise EdgeformerError(
                "what the answer must fit has more than %d parts; smaller counts or fewer "
                "alternatives do" % MOST_NODES
            )
        self.by_byte.append([])
        self.by_nothing.append([])
        self.by_rule.append([])
        return len(self.by_byte) - 1

    def _name(self, name: Hashable) -> None:
        self.starts[name], self.ends[name] = self._node(), self._node()

    def _through(self, name: Hashable, start: int, end: int) -> None:
        if name not in self.starts:
            self._name(name)
            self._waiting.append(name)
        self.by_rule[start].append((name, end))

    def _add(self, tree: Tree, start: int, end: int) -> None:
        kind = tree[0]
        if kind == "set":
            self._add_set(tree[1], start, end)
        elif kind == "call":
            self._through(tree[1], start, end)
        elif kind == "any":
            for each in tree[1]:
                self._add(each, start, end)
        elif kind == "all":
            nodes = [start] + [self._node() for _ in tree[1][1:]] + [end]
            for each, before, after in zip(tree[1], nodes, nodes[1:]):
                self._add(each, before, after)
            if not tree[1]:
                self.by_nothing[start].append(end)
        else:
            self._add_repeat(tree, start, end)

    def _add_set(self, members: Tuple[int, ...], start: int, end: int) -> None:
        if members and members[-1] <= 0x80:
            pairs = zip(members[::2], members[1::2])
            self.by_byte[start].extend((first, stop - 1, end) for first, stop in pairs)
            return
        name = ("set", members)
        if len(members) > _FEW and self.starts.get(name) != start:
            self._rules[name] = ("set", members)
            self._through(name, start, end)
            return
        after: Dict[Tuple[int, Range], int] = {}  # the node behind a range, if not the end
        for ranges in utf8_ranges(members):
            node = start
            for each in ranges[:-1]:
                if (node, each) not in after:
                    after[node, each] = self._node()
                    self.by_byte[node].append(each + (after[node, each],))
                node = after[node, each]
            self.by_byte[node].append(ranges[-1] + (end,))

    def _add_repeat(self, tree: Tree, start: int, end: int) -> None:
        _, part, least, most = tree
        copies = least if most is None else most
        if copies > 1 and part[0] in ("all", "any", "repeat"):
            name = ("part", len(self._rules))
            self._rules[name] = part
            part = ("call", name)
        node = start
        for index in range(copies):
            if index >= least:
                self.by_nothing[node].append(end)
            after = self._node()
            self._add(part, node, after)
            node = after
        if most is None:
            again = self._node()
            self.by_nothing[node].append(again)
            self._add(part, again, again)
            node = again
        self.by_nothing[node].append(end)

    def _alive(self, alphabet: FrozenSet[int]) -> List[bool]:
        """From the ends backwards; a node is looked at again when one that it leads to lives."""
        before: List[List[int]] = [[] for _ in self.is_end]
        for node, ways in enumerate(self.by_byte):
            for _, _, to in ways:
                before[to].append(node)
            for to in self.by_nothing[node]:
                before[to].append(node)
            for name, to in self.by_rule[node]:
                before[to].append(node)
                before[self.starts[name]].append(node)
        alive = list(self.is_end)
        waiting = list(self.ends.values())
        while waiting:
            for node in before[waiting.pop()]:
                if not alive[node] and self._reaches(node, alive, alphabet):
                    alive[node] = True
                    waiting.append(node)
        return alive

    def _reaches(self, node: int, alive: List[bool], alphabet: FrozenSet[int]) -> bool:
        return (
            any(alive[to] for to in self.by_nothing[node])
            or any(alive[to] and alive[self.starts[name]] for name, to in self.by_rule[node])
            or any(
                alive[to] and any(byte in alphabet for byte in range(first, last + 1))
                for first, last, to in self.by_byte[node]
            )
        )
