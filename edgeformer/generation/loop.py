"""Tokens: the prompt in chunks, then step by step, whatever the backend and the rules."""

import sys
from typing import Collection, Generator, List, Optional, Sequence, Tuple, Union

from edgeformer.backends import Backend, Output
from edgeformer.errors import EdgeformerError
from edgeformer.generation.cache import Reuse
from edgeformer.generation.drafting import Drafter
from edgeformer.generation.drafting.verify import Drafted, PlainSteps, steps_for
from edgeformer.generation.overflow import Overflow, OverflowSteps
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.prefill import prefill, refuse_length
from edgeformer.generation.sampling import Sampler, sampler_for
from edgeformer.generation.stop import Halt

Tokens = Generator[Tuple[int, Optional[str]], None, None]  # each with its finish reason


class Limits:
    """How far a stream may go: where its last token stands, and what that is called."""

    def __init__(
        self,
        prompt: int,
        params: SamplingParams,
        capacity: int,
        overflow: Optional[Overflow] = None,
    ) -> None:
        most, full = capacity, "capacity"
        if overflow is not None:
            most = sys.maxsize if overflow.positions is None else overflow.positions
            full = "positions"
        room = most - prompt + 1  # the last new token needs no row
        asked = room if params.max_new_tokens is None else params.max_new_tokens
        self.reason = "length" if params.max_new_tokens is not None and asked <= room else full
        self.last = prompt + min(asked, room) - 1  # its position


def stream_ids(
    backend: Backend,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    eos_ids: Collection[int],
    capacity: int,
    chunk: int,
) -> Tokens:
    """Tokens alone, each with its finish reason: None, "stop", "length", "capacity", "deadline".

    `params` are checked ones; their stop strings are not looked at. Any other stream on the
    backend ends with this one's first token.
    """
    refuse_length(len(prompt_ids), capacity)
    sampler, _ = sampler_for(params, len(prompt_ids), eos_ids)
    limits = Limits(len(prompt_ids), params, capacity)
    halt = Halt(params.deadline_s)
    return tokens(backend, prompt_ids, sampler, eos_ids, limits, min(chunk, capacity), halt)


def tokens(
    backend: Backend,
    prompt_ids: Sequence[int],
    sampler: Optional[Sampler],
    eos_ids: Collection[int],
    limits: Limits,
    chunk: int,
    halt: Halt,
    reuse: Optional[Reuse] = None,
    drafter: Optional[Drafter] = None,
    drafted: Optional[Drafted] = None,
    overflow: Optional[Overflow] = None,
) -> Tokens:
    """The loop itself. It takes the backend's cache with its first token, and of the rows there
    what `reuse` allows; None: no row. What a drafter did is counted in `drafted`. `overflow`: how
    it goes on where the cache is full, without a drafter.

    Halted while the prompt is computed, it has no token and no reason to give.
    """
    halt.begin()
    before, mine = backend.owner, object()
    backend.owner = mine
    reuse = Reuse("none") if reuse is None else reuse
    want = "token" if sampler is None else "logits"
    chunk = chunk if overflow is None else overflow.chunk
    steps: Union[PlainSteps, OverflowSteps]
    if overflow is None:
        output = reuse.whole(backend, len(prompt_ids), before)
        if output is None:
            start = reuse.take(backend, prompt_ids, chunk)
            output = prefill(backend, prompt_ids, chunk, want, halt, start)
        steps = steps_for(backend, sampler, limits.last, chunk, drafter, drafted, eos_ids)
    else:
        start = reuse.take(backend, prompt_ids, chunk)
        steps = overflow.steps(backend, want, prompt_ids)
        output = steps.begin(prompt_ids, halt, start)
    if output is None:
        return
    reuse.computed(mine, output)
    try:
        for token, reason in _chosen(
            steps, output, list(prompt_ids), sampler, eos_ids, limits, halt
        ):
            yield token, reason
            if reason is None and backend.owner is not mine:
                raise EdgeformerError(
                    "another stream has begun on this model and taken its cache; finish one "
                    "stream before the next, or load the bundle twice"
                )
    finally:
        if backend.owner is mine:
            steps.end()


def _chosen(
    steps: Union[PlainSteps, OverflowSteps],
    output: Output,
    ids: List[int],
    sampler: Optional[Sampler],
    eos_ids: Collection[int],
    limits: Limits,
    halt: Halt,
) -> Tokens:
    """Token after token, and the step behind each; `ids` is the text, which grows."""
    while True:
        token = output.tokens[0] if sampler is None else sampler(output.logits[0], ids)
        if token in eos_ids:
            yield token, "stop"
            return
        ids.append(token)
        if sampler is not None and sampler.ended(ids):
            yield token, "stop"
            return
        if len(ids) > limits.last:
            yield token, limits.reason
            return
        halted = halt.reason()
        yield token, halted
        if halted is not None:
            return
        output = steps.after(ids)
