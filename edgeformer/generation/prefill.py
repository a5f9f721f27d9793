"""A prompt in chunks."""

from typing import List, Optional, Sequence

from edgeformer.backends import Backend, Output
from edgeformer.errors import EdgeformerError
from edgeformer.generation.stop import Halt


def prefill(
    backend: Backend,
    ids: Sequence[int],
    chunk: int,
    want: str,
    halt: Optional[Halt] = None,
    held: int = 0,
) -> Optional[Output]:
    """Run ids in chunks, each at the position that is its index; the output after the last of them.
    None if halted before.

    The first `held` of them stand in the cache already; at least one does not.
    """
    for start in range(held, len(ids), chunk):
        if halt is not None and halt.reason() is not None:
            return None
        part: List[int] = list(ids[start : start + chunk])
        # A graph gives at least one row of logits; only the last chunk's is looked at.
        last = start + chunk >= len(ids)
        output = backend.step(
            part, range(start, start + len(part)), [len(part) - 1], want if last else "token"
        )
    return output


def refuse_length(prompt: int, capacity: int, positions: Optional[int] = None) -> None:
    """Every prompt token needs a row, or in a ring a position; the last new token does not."""
    if prompt == 0:
        raise EdgeformerError("the prompt has no tokens; give at least one")
    if positions is not None and prompt > positions:
        raise EdgeformerError(
            f"the prompt has {prompt} tokens, the model knows {positions} positions; shorten it"
        )
    if positions is None and prompt > capacity:
        raise EdgeformerError(
            f"the prompt has {prompt} tokens, the bundle's capacity is {capacity}; "
            "shorten it or export with a larger capacity"
        )
