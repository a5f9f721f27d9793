"""Constraints in numpy alone, for Pythons that llguidance has no release for."""

import json
from typing import Dict, List

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint.automaton import DEAD, Automaton
from edgeformer.generation.constraint.follow import Matcher
from edgeformer.generation.constraint.graph import Graph, Rules
from edgeformer.generation.constraint.json_rules import rules_of
from edgeformer.generation.constraint.syntax import parse
from edgeformer.generation.constraint.vocabulary import Vocabulary
from edgeformer.text.pattern_classes import UnknownPattern

_MOST_MASKS = 512  # kept, of a byte for each id


class Engine:
    """A vocabulary, made ready once; a matcher for each answer."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tree = TokenTree(vocabulary.tokens)
        self._alphabet = frozenset().union(*vocabulary.tokens)

    def regex(self, pattern: str) -> Matcher:
        try:
            branches = parse(pattern)
        except UnknownPattern as error:
            raise EdgeformerError(f"the regex cannot be used: {error}") from None
        tree = ("any", [branch.tree for branch in branches])
        return self._matcher({"answer": tree}, "regex")

    def json_schema(self, schema: str) -> Matcher:
        return self._matcher(rules_of(json.loads(schema)), "JSON schema")

    def _matcher(self, rules: Rules, what: str) -> Matcher:
        graph = Graph(rules, "answer", self._alphabet)
        if not graph.alive[graph.start]:
            raise EdgeformerError(f"no text of this tokenizer's characters fits the {what}")
        return _Matcher(Automaton(graph), self._tree)


class TokenTree:
    """All tokens by their common beginnings, level by level, for numpy to walk at once."""

    def __init__(self, tokens: List[bytes]) -> None:
        self.tokens = tokens
        order = sorted((i for i, each in enumerate(tokens) if each), key=tokens.__getitem__)
        lengths = np.array([len(tokens[i]) for i in order], np.int64)
        wide = int(lengths.max())
        table = np.frombuffer(b"".join(tokens[i].ljust(wide, b"\0") for i in order), np.uint8)
        table = table.reshape(len(order), wide)
        shared = np.zeros(len(order), np.int64)  # bytes that a token shares with the one before
        equal = table[1:] == table[:-1]
        equal &= np.arange(wide) < np.minimum(lengths[1:], lengths[:-1])[:, None]
        shared[1:] = np.where(equal.all(axis=1), wide, equal.argmin(axis=1))
        self.parents: List[np.ndarray] = []  # of each level's nodes, in the level before
        self.bytes: List[np.ndarray] = []
        self.nodes = 0
        node = np.zeros(len(order), np.int64)  # of each token, in the level before
        self.node_of = np.full(len(tokens), -1, np.int64)  # in all levels; -1: in none
        order = np.array(order, np.int64)
        for level in range(wide):
            here = np.flatnonzero(lengths > level)
            first = (shared[here] <= level) | (here == 0)
            self.parents.append(node[here[first]])
            self.bytes.append(table[here[first], level].astype(np.int64))
            node[here] = np.cumsum(first) - 1
            done = here[lengths[here] == level + 1]
            self.node_of[order[done]] = self.nodes + node[done]
            self.nodes += int(first.sum())

    def allowed(self, automaton: Automaton, state: int) -> np.ndarray:
        """bool [tokens]: those that go on from a state."""
        alive = np.zeros(self.nodes + 1, bool)  # the last: of a token in no level
        before = np.array([state], np.int64)
        offset = 0
        for parents, each in zip(self.parents, self.bytes):
            states = np.zeros(len(parents), np.int64)
            open_ = np.flatnonzero(before[parents] != DEAD)
            if len(open_) == 0:
                break
            classes = automaton.class_of[each[open_]]
            states[open_] = automaton.steps(before[parents[open_]], classes)
            alive[offset : offset + len(states)] = states != DEAD
            offset += len(states)
            before = states
        return alive[self.node_of]


class _Matcher(Matcher):
    def __init__(self, automaton: Automaton, tree: TokenTree) -> None:
        self._automaton = automaton
        self._tree = tree
        self._states = [automaton.start]
        self._masks: Dict[int, np.ndarray] = {}

    def push(self, entry: int) -> None:
        state = self._states[-1]
        for byte in self._tree.tokens[entry]:
            state = self._automaton.step(state, byte)
        self._states.append(state)

    def pop(self, count: int) -> None:
        del self._states[len(self._states) - count :]

    def mask(self) -> np.ndarray:
        state = self._states[-1]
        if state not in self._masks:
            if len(self._masks) >= _MOST_MASKS:
                self._masks.clear()
            self._masks[state] = self._tree.allowed(self._automaton, state)
        return self._masks[state]

    def may_end(self) -> bool:
        return self._automaton.may_end[self._states[-1]]
