"""From logits to a token, by all the rules of a stream in their order (docs/generation.md)."""

import os
from typing import Iterable, Optional, Sequence, Tuple

import numpy as np

from edgeformer.generation import choosing
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.processor import (
    Constraint,
    Processor,
    changes_logits,
    refuse_broken,
)


class Sampler:
    """Draws tokens by a SamplingParams. One for each stream."""

    def __init__(
        self,
        params: SamplingParams,
        seed: int = 0,
        prompt: int = 0,
        end_ids: Iterable[int] = (),
        constraint: Optional[Constraint] = None,
    ) -> None:
        self._params = params
        self._processor = Processor(params, prompt, end_ids, constraint)
        # RandomState, since its streams are frozen: equal on every numpy. It takes 32-bit words.
        words = [seed & 0xFFFFFFFF, seed >> 32]
        self._random = np.random.RandomState(np.array(words, np.uint32))

    def __call__(self, logits: np.ndarray, ids: Sequence[int]) -> int:
        """The token after `ids`, prompt and answer so far, by the model's logits [vocab]."""
        if self._params.temperature == 0.0:
            return int(self._processed(logits, ids).argmax())
        found, scores = self._scores(logits, ids)
        return int(found[choosing.draw(scores, self.point())])

    def distribution(self, logits: np.ndarray, ids: Sequence[int]) -> Tuple[np.ndarray, np.ndarray]:
        """What a call would draw from: ascending ids, and their probabilities in float64.

        It takes nothing from the seed. Greedy gives one id with probability 1.
        """
        if self._params.temperature == 0.0:
            best = self._processed(logits, ids).argmax()
            return np.array([best], np.int64), np.ones(1)
        found, scores = self._scores(logits, ids)
        kept = scores > -np.inf
        shares = np.exp(scores[kept] - scores.max())
        return found[kept], shares / shares.sum()

    @property
    def greedy(self) -> bool:
        """Whether it takes the likeliest token by its rules, and draws nothing."""
        return self._params.temperature == 0.0

    def margin(self, logits: np.ndarray, ids: Sequence[int]) -> float:
        """How much the likeliest token's logit is above the next one's, by the rules; in units of
        the model's logits, of which a penalty makes smaller or larger ones."""
        penalty = self._params.repetition_penalty
        margin = choosing.top_margin(self._processed(logits, ids))
        return margin / max(1.0, penalty, 1 / penalty)

    def ended(self, ids: Sequence[int]) -> bool:
        """Whether the constraint lets nothing follow `ids`, prompt and answer so far."""
        return self._processor.ended(ids)

    def point(self) -> float:
        """The next number in [0, 1) of the seed."""
        return self._random.random_sample()

    def _processed(self, logits: np.ndarray, ids: Sequence[int]) -> np.ndarray:
        if self._processor.active:
            return self._processor(logits, ids)
        refuse_broken(logits)
        return logits

    def _scores(self, logits: np.ndarray, ids: Sequence[int]) -> Tuple[np.ndarray, np.ndarray]:
        """Ids that may be drawn, and the scores of these."""
        params = self._params
        logits = self._processed(logits, ids)
        found = choosing.likely(logits, params.top_k)
        if len(found) < len(logits):
            logits = logits[found]
        scores = choosing.with_temperature(logits, params.temperature)
        scores = choosing.keep_top_k(scores, params.top_k)
        for keep, p in (
            (choosing.keep_top_p, params.top_p),
            (choosing.keep_min_p, params.min_p),
            (choosing.keep_typical, params.typical_p),
        ):
            kept = keep(scores, p)
            if kept is not scores:  # what follows looks at these alone
                left = np.flatnonzero(kept > -np.inf)
                found, scores = found[left], kept[left]
        return found, scores


def new_seed() -> int:
    """A seed that nobody has to think of, from the system's randomness."""
    return int.from_bytes(os.urandom(4), "little")


def sampler_for(
    params: SamplingParams,
    prompt: int = 0,
    end_ids: Iterable[int] = (),
    constraint: Optional[Constraint] = None,
) -> Tuple[Optional[Sampler], Optional[int]]:
    """A sampler and the seed that it got. None where the likeliest token is wanted as it is, for
    which no logits are needed; a greedy stream's seed says nothing."""
    if params.temperature == 0.0:
        if not changes_logits(params) and constraint is None:
            return None, params.seed
        return Sampler(params, 0, prompt, end_ids, constraint), params.seed
    seed = new_seed() if params.seed is None else params.seed
    return Sampler(params, seed, prompt, end_ids, constraint), seed
