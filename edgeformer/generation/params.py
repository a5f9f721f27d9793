"""What a caller may ask of a stream, checked once. Needs no numpy."""

import math
import numbers
from typing import Any, Dict, NamedTuple, Optional, Tuple

from edgeformer.errors import EdgeformerError

MOST = 2**31 - 1


class SamplingParams(NamedTuple):
    """How tokens are chosen and what ends a stream.

    Temperature divides the logits, then the `top_k` likeliest tokens stay, then the fewest
    likeliest tokens whose probabilities add up to `top_p`. A seed makes a stream repeatable on
    one backend and machine.
    """

    max_new_tokens: Optional[int] = None  # None: until the cache is full
    temperature: float = 0.0  # 0: always the likeliest token
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    seed: Optional[int] = None  # None: a new one for each stream, told in its stats
    stop: Tuple[str, ...] = ()  # texts that end the stream and are not part of it
    deadline_s: Optional[float] = None  # seconds from the first `next`; a step is not interrupted

    def checked(self) -> "SamplingParams":
        """The same in plain Python types; a value out of its range is an error that names it."""
        stop = (self.stop,) if isinstance(self.stop, str) else self.stop
        if not isinstance(stop, (list, tuple)):
            raise EdgeformerError(f"stop is {stop!r}; it must be a string or a list of strings")
        for text in stop:
            if not isinstance(text, str) or not text:
                raise EdgeformerError(f"stop has {text!r}; each must be a string, not an empty one")
        limit, seed, deadline = self.max_new_tokens, self.seed, self.deadline_s
        least = math.ldexp(1.0, -1074)
        return SamplingParams(
            None if limit is None else _integer("max_new_tokens", limit, 1, MOST),
            _number("temperature", self.temperature, 0.0, 100.0, "from 0 to 100"),
            _integer("top_k", self.top_k, 0, MOST),
            _number("top_p", self.top_p, least, 1.0, "above 0 and at most 1"),
            None if seed is None else _integer("seed", seed, 0, 2**64 - 1),
            tuple(stop),
            None if deadline is None else _number("deadline_s", deadline, least, 1e9, "above 0"),
        )

    def changed(self, asked: Dict[str, Any]) -> "SamplingParams":
        """These parameters with the asked ones in place, checked; an unknown name is an error."""
        for name in asked:
            if name not in self._fields:
                raise EdgeformerError(
                    f"sampling has no parameter {name!r}; known: {', '.join(self._fields)}"
                )
        return self._replace(**asked).checked()


def _integer(name: str, value: Any, low: int, high: int) -> int:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise EdgeformerError(f"{name} is {value!r}; it must be an integer from {low} to {high}")
    return int(value)


def _number(name: str, value: Any, low: float, high: float, allowed: str) -> float:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not low <= value <= high:  # NaN is never inside
        raise EdgeformerError(f"{name} is {value!r}; it must be a number {allowed}")
    return float(value)
