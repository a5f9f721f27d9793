"""The rows of several continuations of one prompt in a cache that holds one of them at a time."""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from edgeformer.backends import Backend, Rows
from edgeformer.errors import EdgeformerError


class Node:
    """A token of a continuation, and the row that it got when it was computed."""

    __slots__ = ("length", "parent", "rows", "token")

    def __init__(self, token: int, parent: "Optional[Node]") -> None:
        self.token = token
        self.parent = parent
        self.length: int = 1 if parent is None else parent.length + 1
        self.rows: Optional[Rows] = None

    def path(self) -> "List[Node]":
        """From the first token behind the prompt to this one."""
        nodes: List[Node] = []
        node: Optional[Node] = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def tokens(self) -> List[int]:
        return [node.token for node in self.path()]


class BranchedRows:
    """Puts a continuation's rows behind those of the prompt, and computes its last token.

    What the cache holds of another continuation stays where both begin alike; a row is copied out
    once and back in whenever the cache has held another one in its place.
    """

    def __init__(self, backend: Backend, prompt: int) -> None:
        if "rows" not in backend.abilities:
            raise EdgeformerError(
                f"the backend {backend.name} cannot copy rows of its cache, which beams need; "
                "open the bundle with another one (--backend ort)"
            )
        self._backend = backend
        self._prompt = prompt
        self._held: List[Node] = []

    def logits(self, node: Node) -> np.ndarray:
        """Float32 [vocab] behind `node`, whose parents were all computed before."""
        *before, last = node.path()
        same = 0
        while same < min(len(before), len(self._held)) and before[same] is self._held[same]:
            same += 1
        self._backend.truncate(self._prompt + same)
        self._held = before[:same]
        if same < len(before):
            self._backend.write_rows(_joined([each.rows for each in before[same:]]))
            self._held = before
        position = self._prompt + len(before)
        output = self._backend.step([last.token], [position], [0], "logits")
        last.rows = self._backend.read_rows(position, position + 1)
        self._held = [*before, last]
        return output.logits[0]


def _joined(rows: Sequence[Rows]) -> Rows:
    both: Tuple[np.ndarray, np.ndarray] = (
        np.concatenate([each.positions for each in rows]),
        np.concatenate([each.values for each in rows], axis=1),
    )
    return rows[0]._replace(positions=both[0], values=both[1])
