"""Which cached rows a prompt can take instead of computing them. Needs no numpy."""

from typing import Any, Sequence

from edgeformer.backends import Backend, Held
from edgeformer.errors import EdgeformerError

MODES = ("exact", "all", "none")


class Reuse:
    """What a stream may take of the rows that it finds, and how many it took.

    exact  rows that a run from the start would give to the last bit: whole chunks of a prompt,
           and rows that were loaded. What ran before cannot change an answer
    all    all rows of the same tokens. Some were computed one by one or in other chunks, and
           differ in rounding from those of a run from the start
    none   no row
    """

    def __init__(self, mode: Any = "exact") -> None:
        if isinstance(mode, bool):
            mode = "all" if mode else "none"
        if mode not in MODES:
            raise EdgeformerError(
                f"reuse is {mode!r}; it must be {', '.join(MODES)}, True (all) or False (none)"
            )
        self.mode = mode
        self.rows = 0

    def take(self, backend: Backend, ids: Sequence[int], chunk: int) -> int:
        """Truncate the cache to the rows that stay; the token after them is the first to compute.

        The last token is always one of these: its logits are wanted.
        """
        held = [] if self.mode == "none" else backend.held[: len(ids) - 1]
        kept = shared(held, ids)
        self.rows = kept if self.mode == "all" else exact(held, kept, chunk)
        backend.truncate(self.rows)
        return self.rows


def shared(held: Sequence[Held], ids: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    for index, (row, token) in enumerate(zip(held, ids)):
        if row[0] != token:
            return index
    return min(len(held), len(ids))


def exact(held: Sequence[Held], kept: int, chunk: int) -> int:
    """Of the first `kept` rows, those that a prefill in chunks computes in these very steps.

    Even a row's rounding, and in dynamic int8 more than that, follows from the tokens beside it
    in its step. So whole steps count, each from where the one before it ended.
    """
    rows = 0
    while rows < kept and held[rows][2] == 0:
        rows += 1
    while rows + chunk <= kept and all(
        (first, count) == (rows, chunk) for _, first, count in held[rows : rows + chunk]
    ):
        rows += chunk
    return rows
