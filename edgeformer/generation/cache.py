"""Which cached rows a prompt can take instead of computing them. Needs no numpy."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from edgeformer.backends import Backend, Held, Output
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

    def whole(self, backend: Backend, prompt: int, before: Optional[object]) -> Optional[Output]:
        """What the model said behind a prompt of so many tokens, where that is known and all its
        rows are there; `before` owned the cache. Truncates it to these."""
        return None

    def computed(self, owner: object, output: Output) -> None:
        """Told what the model said behind the prompt."""


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


def respelled(
    held: Sequence[int], ids: Sequence[int], bytes_of: Callable[[int], Optional[bytes]]
) -> List[int]:
    """The same text, spelled as the cache spells it, as far as that goes.

    A model may write a word in other tokens than the tokenizer would. `bytes_of` an id; None: it is
    a control token, which only itself is equal to.
    """
    found: List[int] = []
    i = j = 0
    while i < len(held) and j < len(ids):
        ours, theirs, ends = held[i], ids[j], (i + 1, j + 1)
        if ours != theirs:
            same = _same_text(held, i, ids, j, bytes_of)
            if same is None:
                break
            ends = same
        found += held[i : ends[0]]
        i, j = ends
    return found + list(ids[j:])


def _same_text(
    held: Sequence[int],
    i: int,
    ids: Sequence[int],
    j: int,
    bytes_of: Callable[[int], Optional[bytes]],
) -> Optional[Tuple[int, int]]:
    """Where both have come, from `i` and `j` on, when they first have written the same bytes."""
    ours = theirs = b""
    while True:
        longer = len(ours) > len(theirs)
        if (j if longer else i) == len(ids if longer else held):
            return None
        more = bytes_of(ids[j] if longer else held[i])
        if more is None:
            return None
        if longer:
            theirs, j = theirs + more, j + 1
        else:
            ours, i = ours + more, i + 1
        if not (ours.startswith(theirs) or theirs.startswith(ours)):
            return None
        if ours == theirs:
            return i, j
