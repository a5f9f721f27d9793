"""The loop: prompt in chunks, then one token a step; text, stop rules and times around it."""

from time import perf_counter
from typing import Container, Generator, List, Optional, Sequence, Tuple

from edgeformer.backends import Backend, Output
from edgeformer.errors import EdgeformerError
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.sampling import Sampler, sampler_for
from edgeformer.generation.steps import Stats, Step
from edgeformer.generation.stop import StopText
from edgeformer.text import TextStream

Tokens = Generator[Tuple[int, Optional[str]], None, None]  # each with its finish reason


class Stream:
    """One answer, as an iterator of `Step`. The first `next` takes the model's cache.

    `finish_reason` and `stats` are also here, for a stream that did not reach its last step:
    closed, or interrupted by Ctrl-C, it has finish reason "cancelled".
    """

    def __init__(
        self,
        backend: Backend,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        eos_ids: Container[int],
        capacity: int,
        chunk: int,
        text: Optional[TextStream] = None,
        load_s: float = 0.0,
    ) -> None:
        """`params` are checked ones. Without `text` every step's text is empty."""
        refuse_length(len(prompt_ids), capacity)
        if params.stop and text is None:
            raise EdgeformerError("stop strings need a tokenizer, and this bundle has none")
        self.finish_reason: Optional[str] = None
        self._sampler, self._seed = sampler_for(params)
        self._backend = backend
        self._prompt_tokens = len(prompt_ids)
        self._eos_ids = eos_ids
        self._text = text
        self._params = params
        self._stop = StopText(params.stop)
        self._load_s = load_s
        self._times: List[float] = []
        self._ids = _ids(backend, prompt_ids, params, self._sampler, eos_ids, capacity, chunk)

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Step:
        if self.finish_reason is not None:
            raise StopIteration
        started = perf_counter()
        try:
            token, reason = next(self._ids)
        except KeyboardInterrupt:
            self.close()
            raise
        text, reason = self._shown(token, reason)
        self._times.append(perf_counter() - started)
        if reason is None:
            return Step(token, text, None, None)
        self.finish_reason = reason
        return Step(token, text, reason, self.stats)

    def close(self) -> None:
        """End the stream here. The model is free for another one, as it always is."""
        if self.finish_reason is None:
            self.finish_reason = "cancelled"
            self._ids.close()

    @property
    def stats(self) -> Stats:
        """What the stream has cost so far."""
        return Stats(
            prompt_tokens=self._prompt_tokens,
            new_tokens=len(self._times),
            load_s=self._load_s,
            first_token_s=self._times[0] if self._times else None,
            token_s=tuple(self._times[1:]),
            seed=self._seed,
            backend=self._backend.name,
            threads=self._backend.threads,
        )

    def _shown(self, token: int, reason: Optional[str]) -> Tuple[str, Optional[str]]:
        """The text that this token lets out, and the reason, which a stop string may overrule."""
        if self._text is None:
            return "", reason
        text = "" if token in self._eos_ids else self._text.push(token)
        if reason is None and not self._params.stop:
            return text, None
        if reason is not None:
            text += self._text.flush()
        text, stopped = self._stop.push(text)
        if stopped:
            return text, "stop_string"
        return text if reason is None else text + self._stop.flush(), reason


def stream_ids(
    backend: Backend,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    eos_ids: Container[int],
    capacity: int,
    chunk: int,
) -> Tokens:
    """Tokens alone, each with its finish reason: None, "stop", "length" or "capacity".

    `params` are checked ones; their stop strings are not looked at. Any other stream on the
    backend ends with this one's first token.
    """
    refuse_length(len(prompt_ids), capacity)
    sampler, _ = sampler_for(params)
    return _ids(backend, prompt_ids, params, sampler, eos_ids, capacity, chunk)


def prefill(backend: Backend, ids: Sequence[int], chunk: int, want: str) -> Output:
    """Run ids in chunks at positions 0, 1, ...; the output after the last of them."""
    for start in range(0, len(ids), chunk):
        part = ids[start : start + chunk]
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


def _ids(
    backend: Backend,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    sampler: Optional[Sampler],
    eos_ids: Container[int],
    capacity: int,
    chunk: int,
) -> Tokens:
    mine = backend.owner = object()
    backend.truncate(0)
    room = capacity - len(prompt_ids) + 1
    asked = room if params.max_new_tokens is None else params.max_new_tokens
    at_limit = "length" if params.max_new_tokens is not None and asked <= room else "capacity"
    want = "token" if sampler is None else "logits"
    output = prefill(backend, prompt_ids, min(chunk, capacity), want)
    position = len(prompt_ids)
    last = position + min(asked, room) - 1
    while True:
        token = output.tokens[0] if sampler is None else sampler(output.logits[0])
        if token in eos_ids:
            yield token, "stop"
            return
        if position == last:
            yield token, at_limit
            return
        yield token, None
        if backend.owner is not mine:
            raise EdgeformerError(
                "another stream has begun on this model and taken its cache; finish one stream "
                "before the next, or load the bundle twice"
            )
        output = backend.step([token], [position], [0], want)
        position += 1
