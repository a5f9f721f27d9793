"""Where a text stands in a graph, as numbers: made when they are met, and kept."""

from typing import Dict, FrozenSet, Iterable, List, Tuple

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint.graph import Graph

DEAD = 0  # the state of a text that nothing can save
MOST_STATES = 100000
MOST_PLACES = 20000  # of one state

# A node, and the rules around it that are not done: the number of a (node to go on, others around).
Place = Tuple[int, int]


class Automaton:
    """A state is a set of places: all those where a text so far may stand.

    With rules in rules there is no end of states, but a text meets few of them.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.class_of, self._byte_of = _classes(graph)  # bytes that no way tells apart
        self._rows = np.full((64, len(self._byte_of)), -1, np.int32)
        self._rows[DEAD] = DEAD
        self._places: List[FrozenSet[Place]] = [frozenset()]
        self._state_of: Dict[Tuple[FrozenSet[Place], bool], int] = {(frozenset(), False): DEAD}
        self.may_end = [False]
        self._around: List[Place] = [(0, 0)]  # 0: no rule around
        self._number_around: Dict[Place, int] = {}
        self.start = self._state([(graph.start, 0)])

    def step(self, state: int, byte: int) -> int:
        return self._known(state, self.class_of[byte])

    def steps(self, states: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """[n] states after one byte each, of these classes."""
        after = self._rows[states, classes]
        missing = after < 0
        if missing.any():
            pairs = states[missing].astype(np.int64) * len(self._byte_of) + classes[missing]
            for pair in np.unique(pairs):
                self._known(*divmod(int(pair), len(self._byte_of)))
            after = self._rows[states, classes]
        return after

    def _known(self, state: int, byte_class: int) -> int:
        after = int(self._rows[state, byte_class])
        if after < 0:
            byte = self._byte_of[byte_class]
            by_byte = self._graph.by_byte
            found = [
                (to, around)
                for node, around in self._places[state]
                for first, last, to in by_byte[node]
                if first <= byte <= last
            ]
            after = self._state(found) if found else DEAD
            self._rows[state, byte_class] = after
        return after

    def _state(self, places: Iterable[Place]) -> int:
        key = self._spread(places)
        known = self._state_of.get(key)
        if known is not None:
            return known
        number = len(self._places)
        if number >= MOST_STATES:
            raise EdgeformerError(
                "the answer has met %d states of what it must fit; ask for something simpler"
                % MOST_STATES
            )
        if number == len(self._rows):
            self._rows = np.concatenate([self._rows, np.full_like(self._rows, -1)])
        self._state_of[key] = number
        self._places.append(key[0])
        self.may_end.append(key[1])
        return number

    def _spread(self, places: Iterable[Place]) -> Tuple[FrozenSet[Place], bool]:
        """Those with ways by a byte, of all that are reached by nothing; whether one is the end."""
        graph = self._graph
        waiting = [place for place in places if graph.alive[place[0]]]
        seen = set(waiting)
        kept = []
        may_end = False
        while waiting:
            node, around = waiting.pop()
            if graph.by_byte[node]:
                kept.append((node, around))
            found = [(to, around) for to in graph.by_nothing[node]]
            found += [
                (graph.starts[name], around if _is_last(graph, to) else self._inside(to, around))
                for name, to in graph.by_rule[node]
                if graph.alive[to]
            ]
            if graph.is_end[node]:
                if around:
                    found.append(self._around[around])
                else:
                    may_end = True
            for place in found:
                if place not in seen and graph.alive[place[0]]:
                    seen.add(place)
                    waiting.append(place)
            if len(seen) > MOST_PLACES:
                raise EdgeformerError(
                    "what the answer must fit can be read in more than %d ways at once, or calls "
                    "itself without a character in between" % MOST_PLACES
                )
        return frozenset(kept), may_end

    def _inside(self, to: int, around: int) -> int:
        place = (to, around)
        number = self._number_around.get(place)
        if number is None:
            number = self._number_around[place] = len(self._around)
            self._around.append(place)
        return number


def _is_last(graph: Graph, node: int) -> bool:
    """Whether the rule of this node is over there: nothing of it needs to be remembered."""
    return graph.is_end[node] and not graph.by_nothing[node]


def _classes(graph: Graph) -> Tuple[np.ndarray, List[int]]:
    """The class of each byte [256], and a byte of each class."""
    borders = {0}
    for ways in graph.by_byte:
        for first, last, _ in ways:
            borders.update((first, last + 1))
    starts = sorted(each for each in borders if each < 256)
    class_of = np.zeros(256, np.int32)
    class_of[starts[1:]] = 1
    return np.cumsum(class_of), starts
