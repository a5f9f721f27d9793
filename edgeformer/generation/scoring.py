"""How likely a model finds a given text: the log-probability of each token after those before."""

import math
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from edgeformer.asked import integer
from edgeformer.backends import Backend
from edgeformer.errors import EdgeformerError
from edgeformer.generation.logprobs import logprob_of

MOST_LOGITS = 1 << 22  # numbers that a step gives at a time: 16 MB


class Score(NamedTuple):
    """What a text scored. Natural logarithms, of the model's distribution before any sampling."""

    tokens: Tuple[int, ...]
    logprobs: Tuple[Optional[float], ...]  # None: not scored, the first token or what was given

    @property
    def scored(self) -> int:
        return sum(value is not None for value in self.logprobs)

    @property
    def total(self) -> float:
        """The text's log-probability."""
        return math.fsum(value for value in self.logprobs if value is not None)

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-probability of a token."""
        mean = -self.total / self.scored
        return math.exp(mean) if mean < 709 else math.inf

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.6g}, log-probability {self.total:.6g} "
            f"of {self.scored} tokens"
        )


def scored_ids(ids_of: Callable[[Any], List[int]], text: Any, after: Any) -> Tuple[List[int], int]:
    """The ids of both, text or ids, and how many of them are only read."""
    if after is None:
        return ids_of(text), 1
    if isinstance(text, str) != isinstance(after, str):
        raise EdgeformerError("text and after must both be text, or both lists of token ids")
    first = ids_of(after)
    if not isinstance(text, str):
        return first + ids_of(text), len(first)
    ids = ids_of(after + text)
    if not after and ids[:1] != first:  # the end token that an empty text starts from
        return first + ids, 1
    both = zip(first, ids)
    return ids, next((i for i, (one, other) in enumerate(both) if one != other), len(first))


def score_ids(
    backend: Backend,
    ids: Sequence[int],
    given: int,
    capacity: int,
    chunk: int,
    vocabulary: int,
    overlap: Optional[int] = None,
) -> Score:
    """Score ids from index `given` on, at least 1: a first token has nothing before it.

    A text may have capacity + 1 tokens, for the last one needs no row. A longer one is scored in
    windows: every token sees at least the `overlap` tokens before it. Takes the backend's cache.
    """
    given = max(1, given)
    if len(ids) <= given:
        raise EdgeformerError(
            f"a text of {len(ids)} tokens, {given} of which are only read, has none to score; "
            "give a longer one"
        )
    if overlap is not None:
        overlap = integer("overlap", overlap, 1, capacity, ", the capacity")
    if overlap is None and len(ids) > capacity + 1:
        raise EdgeformerError(
            f"the text has {len(ids)} tokens, and the bundle's capacity of {capacity} scores "
            f"{capacity + 1}; shorten it, export with a larger capacity, or score it in windows: "
            f"overlap={capacity // 2} (--overlap {capacity // 2})"
        )
    backend.owner = object()
    found: List[Optional[float]] = [None] * given
    first = 0  # of the window
    while len(found) < len(ids):
        last = min(first + capacity, len(ids) - 1)
        part = ids[first : last + 1]
        found += _window(backend, part, len(found) - first, min(chunk, capacity), vocabulary)
        first = len(found) - (overlap or 0)
    return Score(tuple(ids), tuple(found))


def _window(
    backend: Backend, ids: Sequence[int], given: int, chunk: int, vocabulary: int
) -> List[float]:
    """Log-probabilities of ids from index `given` on; the last id is not computed."""
    backend.truncate(0)
    found: List[float] = []
    done, count = 0, len(ids) - 1
    while done < count:
        told = done >= given - 1  # the logits behind a token are about the next one
        most = min(chunk, max(1, MOST_LOGITS // vocabulary)) if told else chunk
        stop = min(done + most, count if told else given - 1)
        rows = range(stop - done) if told else [0]
        part = list(ids[done:stop])
        output = backend.step(part, range(done, stop), rows, "logits" if told else "token")
        if told:
            found += map(logprob_of, output.logits, ids[done + 1 : stop + 1])
        done = stop
    return found
