"""What a caller may ask of a stream, checked once. Needs no numpy."""

import math
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple, Union

from edgeformer.asked import integer, number, whole
from edgeformer.errors import EdgeformerError

MOST = 2**31 - 1
LEAST = math.ldexp(1.0, -1074)  # the least float above 0

# Range of a number, in values and in words. None is allowed where it is the default.
NUMBERS = {
    "temperature": (0.0, 100.0, "from 0 to 100"),
    "top_p": (LEAST, 1.0, "above 0 and at most 1"),
    "min_p": (0.0, 1.0, "from 0 to 1"),
    "typical_p": (LEAST, 1.0, "above 0 and at most 1"),
    "repetition_penalty": (0.01, 100.0, "from 0.01 to 100"),
    "frequency_penalty": (-100.0, 100.0, "from -100 to 100"),
    "presence_penalty": (-100.0, 100.0, "from -100 to 100"),
    "deadline_s": (LEAST, 1e9, "above 0"),
}
INTEGERS = {
    "max_new_tokens": (1, MOST),
    "top_k": (0, MOST),
    "seed": (0, 2**64 - 1),
    "no_repeat_ngram_size": (0, MOST),
    "min_new_tokens": (0, MOST),
    "logprobs": (0, MOST),
    "overflow_keep": (0, MOST),
}
BIAS = 10000.0
OVERFLOWS = ("stop", "shift", "ring")
NOT_FOR_BEAMS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "seed",
    "stop",
    "logprobs",
    "overflow",
)

Banned = Union[int, Tuple[int, ...]]


class SamplingParams(NamedTuple):
    """How tokens are chosen and what ends a stream; docs/generation.md has the order of the rules.

    A seed makes a stream repeatable on one backend and machine.
    """

    max_new_tokens: Optional[int] = None  # None: until the cache is full
    temperature: float = 0.0  # 0: always the likeliest token
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0
    seed: Optional[int] = None  # None: a new one for each stream, told in its stats
    stop: Tuple[str, ...] = ()  # texts that end the stream and are not part of it
    deadline_s: Optional[float] = None  # seconds from the first `next`; a step is not interrupted
    min_p: float = 0.0  # least probability, as a share of the likeliest token's
    typical_p: float = 1.0
    repetition_penalty: float = 1.0  # of all tokens in prompt and answer
    frequency_penalty: float = 0.0  # for each time that a token is in the answer
    presence_penalty: float = 0.0  # once for each token that is in the answer
    no_repeat_ngram_size: int = 0  # no n tokens twice in prompt and answer
    logit_bias: Tuple[Tuple[int, float], ...] = ()  # given as {id: added to its logit} or as pairs
    banned_tokens: Tuple[Banned, ...] = ()  # ids, and sequences of ids
    forced_tokens: Tuple[int, ...] = ()  # how the answer begins
    min_new_tokens: int = 0  # no end token before
    logprobs: Optional[int] = None  # log-probabilities of the token and of so many alternatives
    overflow: str = "stop"  # where the cache is full; or "shift" or "ring": docs/chat.md
    overflow_keep: int = 4  # tokens at the start that a shift never gives up

    def checked(self) -> "SamplingParams":
        """The same in plain Python types; a value out of its range is an error that names it."""
        found: Dict[str, Any] = {}
        for name, value in zip(self._fields, self):
            if value is None and self._field_defaults[name] is None:
                continue
            if name in NUMBERS:
                found[name] = number(name, value, *NUMBERS[name])
            elif name in INTEGERS:
                found[name] = integer(name, value, *INTEGERS[name])
        if not isinstance(self.overflow, str) or self.overflow not in OVERFLOWS:
            raise EdgeformerError(
                f"overflow is {self.overflow!r}; it must be one of {', '.join(OVERFLOWS)}"
            )
        limit, least = self.max_new_tokens, found["min_new_tokens"]
        if limit is not None and least > limit:
            raise EdgeformerError(
                f"min_new_tokens is {least}, more than max_new_tokens, which is {limit}"
            )
        return self._replace(
            stop=_stops(self.stop),
            logit_bias=_bias(self.logit_bias),
            banned_tokens=tuple(map(_banned, _items("banned_tokens", self.banned_tokens))),
            forced_tokens=_ids("forced_tokens", self.forced_tokens),
            **found,
        )

    def changed(self, asked: Mapping[str, Any]) -> "SamplingParams":
        """These parameters with the asked ones in place, checked; an unknown name is an error."""
        for name in asked:
            if name not in self._fields:
                raise EdgeformerError(
                    f"sampling has no parameter {name!r}; known: {', '.join(self._fields)}"
                )
        return self._replace(**asked).checked()

    def refuse_for_beams(self) -> None:
        """Refuse, in checked parameters, what a search for the likeliest answers cannot follow."""
        for name in NOT_FOR_BEAMS:
            if getattr(self, name) != self._field_defaults[name]:
                raise EdgeformerError(
                    f"beams are the likeliest answers and know no {name}; leave it out"
                )

    def check_vocabulary(self, size: int) -> None:
        """Refuse ids, in checked parameters, that a vocabulary of `size` tokens does not have."""
        flat = []
        for entry in self.banned_tokens:
            flat += [entry] if isinstance(entry, int) else list(entry)
        for name, ids in (
            ("logit_bias", [token for token, _ in self.logit_bias]),
            ("banned_tokens", flat),
            ("forced_tokens", self.forced_tokens),
        ):
            if ids and max(ids) >= size:
                raise EdgeformerError(
                    f"{name} has token id {max(ids)}, but the vocabulary has {size} tokens: "
                    f"ids 0 to {size - 1}"
                )


def _stops(value: Any) -> Tuple[str, ...]:
    stop = (value,) if isinstance(value, str) else value
    if not isinstance(stop, (list, tuple)):
        raise EdgeformerError(f"stop is {stop!r}; it must be a string or a list of strings")
    for text in stop:
        if not isinstance(text, str) or not text:
            raise EdgeformerError(f"stop has {text!r}; each must be a string, not an empty one")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise EdgeformerError(f"stop has {text!r}: half of a surrogate pair, which no text has")
    return tuple(stop)


def _items(name: str, value: Any) -> Tuple[Any, ...]:
    """The items of a list, a tuple or an array of integers."""
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if getattr(value, "ndim", None) == 1 and hasattr(value, "tolist"):
        return tuple(value.tolist())
    raise EdgeformerError(f"{name} is {value!r}; it must be a list of token ids")


def _ids(name: str, value: Any) -> Tuple[int, ...]:
    return tuple(_token(name, token) for token in _items(name, value))


def _token(name: str, value: Any) -> int:
    found = whole(value)
    if found is None or not 0 <= found <= MOST:
        raise EdgeformerError(f"{name} has {value!r}; a token id is an integer from 0 to {MOST}")
    return found


def _banned(entry: Any) -> Banned:
    """One token, or tokens that may not follow each other."""
    if isinstance(entry, (list, tuple)) or getattr(entry, "ndim", 0) == 1:
        ids = _ids("banned_tokens", entry)
        if not ids:
            raise EdgeformerError("banned_tokens has an empty sequence; each needs a token id")
        return ids[0] if len(ids) == 1 else ids
    return _token("banned_tokens", entry)


def _bias(value: Any) -> Tuple[Tuple[int, float], ...]:
    """Pairs by ascending id."""
    if not isinstance(value, (Mapping, list, tuple)):
        raise EdgeformerError(f"logit_bias is {value!r}; it must be {{token id: bias}}")
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)
    found: Dict[int, float] = {}
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise EdgeformerError(f"logit_bias has {pair!r}; each must be a token id and its bias")
        token = _token("logit_bias", pair[0])
        if token in found:
            raise EdgeformerError(f"logit_bias has token id {token} twice")
        what = f"logit_bias of token id {token}"
        found[token] = number(what, pair[1], -BIAS, BIAS, f"from {-BIAS:g} to {BIAS:g}")
    return tuple(sorted(found.items()))
