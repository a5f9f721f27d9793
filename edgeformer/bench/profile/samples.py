"""What is profiled: prompts and single tokens, each timed from outside as well as from within.

A sample is one prompt or one token. Of all samples the half in the middle counts, by their whole
time, and every figure is a mean over these: so parts add up, and a pause of the machine is no part.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from edgeformer.bench.profile.trace import Run
from edgeformer.bench.worker import WARM_TOKENS, StepClock, prompt_ids, streamed

REPEATS = 7  # of a prompt


class Wanted(NamedTuple):
    """`rows`: cached rows before the first token that is decoded; `prompts`: lengths."""

    rows: int
    new_tokens: int
    prompts: Tuple[int, ...]
    seed: int


class Sample(NamedTuple):
    """Seconds of the whole, seconds inside the backend's steps, and which steps: of all that the
    backend has made, from `first` on `count`."""

    whole_s: float
    inside_s: float
    first: int
    count: int


class Phase(NamedTuple):
    """`length`: of the prompt; None: tokens are decoded, one a sample."""

    length: Optional[int]
    samples: List[Sample]


def taken(model: Any, wanted: Wanted) -> Tuple[List[Phase], int]:
    """The phases, and how many steps the backend has made in all."""
    model._eos_ids = frozenset()  # every run has the same number of tokens
    clock = StepClock(model.backend)
    ids = {n: prompt_ids(model, n, wanted.seed) for n in (wanted.rows, *wanted.prompts)}
    streamed(model, ids[wanted.rows], min(WARM_TOKENS, wanted.new_tokens))
    phases = []
    for length in wanted.prompts:
        streamed(model, ids[length], 1)
        found = []
        for _ in range(REPEATS):
            first = len(clock.seconds)
            whole = streamed(model, ids[length], 1).first_token_s
            inside = clock.seconds[first:]
            found.append(Sample(whole, sum(inside), first, len(inside)))
        phases.append(Phase(length, found))
    seconds = streamed(model, ids[wanted.rows], wanted.new_tokens).token_s
    first = len(clock.seconds) - len(seconds)
    found = [
        Sample(whole, clock.seconds[first + index], first + index, 1)
        for index, whole in enumerate(seconds)
    ]
    return [Phase(None, found), *phases], len(clock.seconds)


def middle_samples(samples: Sequence[Sample]) -> List[Sample]:
    """The half whose whole times lie in the middle, in the order in which they were taken."""
    by_time = [(sample.whole_s, sample.first, sample) for sample in samples]
    return sorted((sample for _, _, sample in middle(by_time)), key=lambda sample: sample.first)


def middle(values: Sequence[Any]) -> Sequence[Any]:
    """The half in the middle, or a little more, in ascending order."""
    cut = len(values) // 4
    return sorted(values)[cut : len(values) - cut]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def runs_of(sample: Sample, runs: Sequence[Run]) -> Sequence[Run]:
    return runs[sample.first : sample.first + sample.count]
