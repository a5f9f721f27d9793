"""Streams longer than the cache: what gives way when no row is free."""

from typing import Any, List, NamedTuple, Optional, Sequence

from edgeformer.backends import Backend, Output
from edgeformer.errors import EdgeformerError
from edgeformer.generation.cache import Reuse
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.prefill import prefill
from edgeformer.generation.stop import Halt
from edgeformer.manifest import Manifest


class Overflow(NamedTuple):
    """How a stream goes on in a cache of `capacity` rows.

    shift  the first `keep` tokens and the most recent ones, half of the other rows, become the text
           that the model sees, and it is computed again
    ring   the rows that no layer sees any more, since all have windows, are given up
    """

    mode: str
    capacity: int
    chunk: int
    keep: int
    window: int  # of the layer that sees farthest; 0: shift
    positions: Optional[int]  # after so many tokens the stream ends; None: never

    def steps(self, backend: Backend, want: str, prompt: Sequence[int]) -> "OverflowSteps":
        kind = RingSteps if self.mode == "ring" else ShiftSteps
        return kind(backend, want, prompt, self)


def overflow_for(
    params: SamplingParams, manifest: Manifest, backend: Backend, drafting: bool = False
) -> Optional[Overflow]:
    """None: the stream ends where the cache does."""
    capacity, keep = manifest.capacity, params.overflow_keep
    chunk = min(manifest.chunk, capacity)
    if params.overflow == "stop":
        return None
    if drafting:
        raise EdgeformerError(
            f"overflow {params.overflow} runs a step for each token; leave drafting off with it"
        )
    if params.overflow == "shift":
        if keep + 2 > capacity:
            raise EdgeformerError(
                f"overflow_keep is {keep}; with a capacity of {capacity} it can be at most "
                f"{capacity - 2}"
            )
        return Overflow("shift", capacity, chunk, keep, 0, None)
    if "drop" not in backend.abilities:
        raise EdgeformerError(
            f"overflow ring gives up single rows, which bundles of dialect {manifest.dialect} "
            "cannot; use overflow shift, or export with --dialect portable"
        )
    window = _window(manifest.model)
    if window > capacity:
        raise EdgeformerError(
            f"overflow ring needs a capacity of {window}, the widest window; that of this bundle "
            f"is {capacity}: export with a larger one"
        )
    chunk = min(chunk, capacity - window + 1)
    return Overflow("ring", capacity, chunk, 0, window, manifest.model["max_positions"])


def _window(model: Any) -> int:
    """Tokens that the layer sees that sees farthest, itself counted."""
    found = model.get("window")
    windows = found if isinstance(found, list) else [found] * model["n_layers"]
    for layer, window in enumerate(windows):
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise EdgeformerError(
                f"overflow ring is for models whose layers all have a window; layer {layer} of "
                "this one sees the whole text: use overflow shift"
            )
    return int(max(windows))


class OverflowSteps:
    """Steps of a stream, one for each token, in a cache that may be full."""

    def __init__(
        self, backend: Backend, want: str, prompt: Sequence[int], overflow: Overflow
    ) -> None:
        self._backend, self._want, self._overflow = backend, want, overflow

    def begin(self, prompt: Sequence[int], halt: Halt, held: int) -> Optional[Output]:
        """The prompt, of which `held` rows stand in the cache. None: halted before its end."""
        return prefill(self._backend, prompt, self._overflow.chunk, self._want, halt, held)

    def after(self, ids: Sequence[int]) -> Output:
        """What follows a text, whose last token has no row yet."""
        raise NotImplementedError

    def end(self) -> None:
        """Nothing is left to be done."""


class ShiftSteps(OverflowSteps):
    """The model sees a text that is shorter than the stream's, and always computed as a whole one:
    after a shift all is as if that text had been the prompt."""

    def __init__(
        self, backend: Backend, want: str, prompt: Sequence[int], overflow: Overflow
    ) -> None:
        super().__init__(backend, want, prompt, overflow)
        self._seen: List[int] = list(prompt)

    def after(self, ids: Sequence[int]) -> Output:
        seen, (_, capacity, chunk, keep, _, _) = self._seen, self._overflow
        seen.append(ids[-1])
        if len(seen) <= capacity:
            return self._backend.step([seen[-1]], [len(seen) - 1], [0], self._want)
        recent = (capacity - keep) // 2
        seen[keep:-recent] = []
        held = Reuse().take(self._backend, seen, chunk)
        output = prefill(self._backend, seen, chunk, self._want, held=held)
        assert output is not None  # nothing halts it
        return output


class RingSteps(OverflowSteps):
    """Positions run on; rows are given up together, as many as nobody sees, when none is free."""

    def begin(self, prompt: Sequence[int], halt: Halt, held: int) -> Optional[Output]:
        output, chunk = None, self._overflow.chunk
        for start in range(held, len(prompt), chunk):
            if halt.reason() is not None:
                return None
            part = list(prompt[start : start + chunk])
            want = self._want if start + chunk >= len(prompt) else "token"
            output = self._step(part, start, want)
        return output

    def after(self, ids: Sequence[int]) -> Output:
        return self._step([ids[-1]], len(ids) - 1, self._want)

    def _step(self, part: List[int], position: int, want: str) -> Output:
        backend, (_, capacity, _, _, window, _) = self._backend, self._overflow
        used, count = backend.cached, len(part)
        if used + count > capacity:
            # The first of them sees the window - 1 rows before it; the rows stand in their order.
            backend.drop(0, used - (window - 1))
        return backend.step(part, range(position, position + count), [count - 1], want)
