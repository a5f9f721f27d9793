"""Tokens: the prompt in chunks, then step by step, whatever the backend and the rules."""

from typing import Collection, Generator, List, Optional, Sequence, Tuple

from edgeformer.backends import Backend, Output
from edgeformer.errors import EdgeformerError
from edgeformer.generation.cache import Reuse
from edgeformer.generation.drafting import Drafter
from edgeformer.generation.drafting.verify import Drafted, PlainSteps, steps_for
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.sampling import Sampler, sampler_for
from edgeformer.generation.stop import Halt

Tokens = Generator[Tuple[int, Optional[str]], None, None]  # each with its finish reason


class Limits:
    """How far a stream may go: where its last token stands, and what that is called."""

    def __init__(self, prompt: int, params: SamplingParams, capacity: int) -> None:
        room = capacity - prompt + 1  # the last new token needs no row
        asked = room if params.max_new_tokens is None else params.max_new_tokens
        self.reason = (
            "length" if params.max_new_tokens is not None and asked <= room else "capacity"
        )
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
) -> Tokens:
    """The loop itself. It takes the backend's cache with its first token, and of the rows there
    what `reuse` allows; None: no row. What a drafter did is counted in `drafted`.

    Halted while the prompt is computed, it has no token and no reason to give.
    """
    halt.begin()
    mine = backend.owner = object()
    reuse = Reuse("none") if reuse is None else reuse
    want = "token" if sampler is None else "logits"
    start = reuse.take(backend, prompt_ids, chunk)
    output = prefill(backend, prompt_ids, chunk, want, halt, start)
    if output is None:
        return
    steps = steps_for(backend, sampler, limits.last, chunk, drafter, drafted)
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
    steps: PlainSteps,
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


def refuse_length(prompt: int, capacity: int) -> None:
    """Every prompt token needs a row; the last new token does not."""
    if prompt == 0:
        raise EdgeformerError("the prompt has no tokens; give at least one")
    if prompt > capacity:
        raise EdgeformerError(
            f"the prompt has {prompt} tokens, the bundle's capacity is {capacity}; "
            "shorten it or export with a larger capacity"
        )
