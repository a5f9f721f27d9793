"""What a stream hands out. Needs no numpy."""

from typing import Iterable, List, NamedTuple, Optional, Sequence, Tuple


class Stats(NamedTuple):
    """What a stream cost. Time that the caller spends between two steps is not counted."""

    prompt_tokens: int
    new_tokens: int  # the end token counts
    load_s: float  # opening the bundle, once per model
    first_token_s: Optional[float]  # the prompt and the first token
    token_s: Tuple[float, ...]  # each token after the first; those of one step share its time
    seed: Optional[int]  # what repeats this stream; None where it was greedy without a seed
    backend: str
    threads: int
    reused_tokens: int = 0  # of the prompt: their rows stood in the cache already
    # A stream with drafts; of one without, these say nothing.
    drafted: int = 0  # tokens that were guessed and scored
    accepted: int = 0  # of these, tokens of the answer
    steps: int = 0  # of the model behind the prompt
    one_token_s: Optional[float] = None  # median of the steps of one token, None: there was none

    @property
    def speedup(self) -> Optional[float]:
        """An estimate: what all tokens would take in steps of one token, by what they took."""
        if not self.drafted or self.one_token_s is None:
            return None
        return self.one_token_s * len(self.token_s) / sum(self.token_s)

    @property
    def tokens_per_s(self) -> Optional[float]:
        """n - 1 intervals between n tokens, the prompt left out; None below two tokens."""
        total = sum(self.token_s)
        return len(self.token_s) / total if total else None

    def __str__(self) -> str:
        """One line for people; the tuple's own fields are for programs."""
        parts = [f"{self.prompt_tokens} prompt + {self.new_tokens} new tokens"]
        if self.reused_tokens:
            parts.append(f"{self.reused_tokens} of the prompt reused")
        if self.first_token_s is not None:
            parts.append(f"first after {self.first_token_s * 1000:.0f} ms")
        if self.tokens_per_s is not None:
            parts.append(f"then {self.tokens_per_s:.1f} tokens/s")
        if self.drafted:
            parts.append(f"{self.accepted} of {self.drafted} drafted tokens accepted")
        if self.speedup is not None:
            parts.append(f"about {self.speedup:.2f} times as fast as without")
        parts.append(f"load {self.load_s:.2f} s")
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
        return ", ".join([*parts, f"{self.backend}, {threads}"])


def shared(times: Sequence[float], new: Sequence[bool]) -> Tuple[float, ...]:
    """Times of tokens, of which those that came with the step of one before them share its time.

    `new`: which tokens a step was run for; shorter or [] where one was run for each.
    """
    found: List[float] = []
    start = 0
    for end in range(1, len(times) + 1):
        if end == len(times) or end >= len(new) or new[end]:
            found += [sum(times[start:end]) / (end - start)] * (end - start)
            start = end
    return tuple(found)


class Step(NamedTuple):
    """One token of a stream. Only the last one has a finish reason and stats.

    `text` is what may be shown now: "" while a character is incomplete or a stop string possible.

    stop         the token ends a text; it has no text of its own
    stop_string  a stop string is complete; the text ends before it
    length       max_new_tokens
    capacity     the cache is full
    positions    the model knows no further position (overflow "ring")
    deadline     deadline_s has passed
    cancelled    by `Stream.cancel`
    """

    token: int
    text: str
    finish_reason: Optional[str]
    stats: Optional[Stats]
    # With `logprobs`, of the model's own distribution before any rule of sampling:
    logprob: Optional[float] = None  # of the token
    top: Tuple[Tuple[int, float], ...] = ()  # the likeliest tokens and theirs, the first first


class Beam(NamedTuple):
    """An answer of a beam search."""

    text: str
    tokens: Tuple[int, ...]
    finish_reason: str
    score: float  # the log-probability divided by the length to the power of the length penalty
    logprob: float  # of all tokens

    def __str__(self) -> str:
        return self.text


class Generation(NamedTuple):
    """A whole stream, joined."""

    text: str
    tokens: Tuple[int, ...]
    finish_reason: str
    stats: Stats
    logprobs: Tuple[float, ...] = ()  # with `logprobs`: of each token
    top: Tuple[Tuple[Tuple[int, float], ...], ...] = ()  # ... and what was likeliest in its place

    @classmethod
    def joined(
        cls, steps: Iterable[Step], finish_reason: Optional[str], stats: Stats
    ) -> "Generation":
        steps = list(steps)
        told = [step for step in steps if step.logprob is not None]
        return cls(
            "".join(step.text for step in steps),
            tuple(step.token for step in steps),
            finish_reason,
            stats,
            tuple(step.logprob for step in told),
            tuple(step.top for step in told),
        )

    def __str__(self) -> str:
        return self.text
