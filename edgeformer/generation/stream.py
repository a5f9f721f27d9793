"""One answer: text, stop rules and times around the loop's tokens."""

from time import perf_counter
from typing import Collection, List, Optional, Sequence, Tuple

from edgeformer.backends import Backend
from edgeformer.errors import EdgeformerError
from edgeformer.generation.cache import Reuse
from edgeformer.generation.drafting import Drafter
from edgeformer.generation.drafting.verify import Drafted, refuse_rounding
from edgeformer.generation.logprobs import Telling
from edgeformer.generation.loop import Limits, tokens
from edgeformer.generation.overflow import Overflow
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.prefill import refuse_length
from edgeformer.generation.processor import Constraint
from edgeformer.generation.sampling import sampler_for
from edgeformer.generation.steps import Stats, Step, shared
from edgeformer.generation.stop import Halt, StopText
from edgeformer.text import TextStream


class Stream:
    """One answer, as an iterator of `Step`. The first `next` takes the model's cache.

    `finish_reason` and `stats` are also here, for a stream that did not reach its last step: it was
    closed or interrupted by Ctrl-C, cancelled or out of time before its first token, or a step
    failed ("error").
    """

    def __init__(
        self,
        backend: Backend,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        eos_ids: Collection[int],
        capacity: int,
        chunk: int,
        text: Optional[TextStream] = None,
        load_s: float = 0.0,
        constraint: Optional[Constraint] = None,
        reuse: Optional[Reuse] = None,
        show_special: bool = False,
        drafter: Optional[Drafter] = None,
        overflow: Optional[Overflow] = None,
    ) -> None:
        """`params` are checked ones. Without `text` every step's text is empty. `show_special`:
        the end token has a text, too."""
        ring = overflow is not None and overflow.mode == "ring"
        refuse_length(len(prompt_ids), capacity, overflow.positions if ring else None)
        limits = Limits(len(prompt_ids), params, capacity, overflow)
        if params.stop and text is None:
            raise EdgeformerError("stop strings need a tokenizer, and this bundle has none")
        self.finish_reason: Optional[str] = None
        sampler, self._seed = sampler_for(params, len(prompt_ids), eos_ids, constraint)
        self._telling = None if params.logprobs is None else Telling(sampler, params.logprobs)
        self._backend = backend
        self._prompt_tokens = len(prompt_ids)
        self._without_text = frozenset() if show_special else eos_ids
        self._text = text
        self._params = params
        self._stop = StopText(params.stop)
        self._halt = Halt(params.deadline_s)
        self._load_s = load_s
        self._reuse = Reuse("none") if reuse is None else reuse
        self._times: List[float] = []
        self._drafted = Drafted()
        if drafter is not None and params.temperature == 0.0:
            refuse_rounding(backend)
        chunk = min(chunk, capacity)
        self._ids = tokens(
            backend,
            prompt_ids,
            self._telling or sampler,
            eos_ids,
            limits,
            chunk,
            self._halt,
            self._reuse,
            drafter,
            self._drafted,
            overflow,
        )

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Step:
        if self._halt.cancelled:
            self.close()
        if self.finish_reason is not None:
            raise StopIteration
        started = perf_counter()
        try:
            token, reason = next(self._ids)
        except StopIteration:
            self.finish_reason = self._halt.reason()
            raise
        except KeyboardInterrupt:
            self.close()
            raise
        except BaseException:  # whatever a backend raises
            self.finish_reason = "error"
            raise
        text, reason = self._shown(token, reason)
        self._times.append(perf_counter() - started)
        if reason is not None:
            self.finish_reason = reason
            self._ids.close()  # now, not when it is collected: it puts the cache in order
        stats = None if reason is None else self.stats
        if self._telling is None:
            return Step(token, text, reason, stats)
        return Step(token, text, reason, stats, *self._telling.told.popleft())

    def close(self) -> None:
        """End the stream here. The model is free for another one, as it always is."""
        self.cancel()
        # Another thread is in a step: it ends the stream after it.
        if self.finish_reason is None and not self._ids.gi_running:
            self.finish_reason = "cancelled"
            self._ids.close()

    def cancel(self) -> None:
        """End the stream after the step that it is in, from any thread.

        The thread that reads it gets that step as the last one, or none where it was still at the
        prompt or between two steps.
        """
        self._halt.cancelled = True

    @property
    def stats(self) -> Stats:
        """What the stream has cost so far."""
        done = self._drafted
        return Stats(
            prompt_tokens=self._prompt_tokens,
            new_tokens=len(self._times),
            load_s=self._load_s,
            first_token_s=self._times[0] if self._times else None,
            token_s=shared(self._times[1:], done.new),
            seed=self._seed,
            backend=self._backend.name,
            threads=self._backend.threads,
            reused_tokens=self._reuse.rows,
            drafted=done.drafted,
            accepted=done.accepted,
            steps=done.steps,
            one_token_s=done.one_token_s,
        )

    def _shown(self, token: int, reason: Optional[str]) -> Tuple[str, Optional[str]]:
        """The text that this token lets out, and the reason, which a stop string may overrule."""
        if self._text is None:
            return "", reason
        text = "" if token in self._without_text else self._text.push(token)
        if reason is None and not self._params.stop:
            return text, None
        if reason is not None:
            text += self._text.flush()
        text, stopped = self._stop.push(text)
        if stopped:
            return text, "stop_string"
        return text if reason is None else text + self._stop.flush(), reason
