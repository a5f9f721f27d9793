"""Log-probabilities of a model's own distribution, in float64: before any rule of sampling."""

from collections import deque
from typing import Deque, Optional, Sequence, Tuple

import numpy as np

from edgeformer.generation.choosing import likely, top_margin
from edgeformer.generation.processor import refuse_broken
from edgeformer.generation.sampling import Sampler

Top = Tuple[Tuple[int, float], ...]  # (token, its log-probability), the likeliest first


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Float64 log-probabilities [vocab]. A logit that is no number is an error."""
    refuse_broken(logits)
    scores = np.asarray(logits, np.float64)
    scores = scores - scores.max()
    return scores - np.log(np.exp(scores).sum())


def logprob_of(logits: np.ndarray, token: int) -> float:
    """The same for a single token, without an array of all of them."""
    refuse_broken(logits)
    scores = np.asarray(logits, np.float64)
    most = scores.max()
    return float(scores[token] - most - np.log(np.exp(scores - most).sum()))


def likeliest(logprobs: np.ndarray, k: int) -> Top:
    """The k likeliest tokens; of equal ones those with the lowest ids first."""
    ids = likely(logprobs, k) if k else np.zeros(0, np.int64)
    order = ids[np.argsort(-logprobs[ids], kind="stable")][:k]
    return tuple((int(token), float(logprobs[token])) for token in order)


class Telling:
    """A sampler that also tells how likely the model found each token, and what else it found so.

    `told` has an entry for each call, for the stream to take.
    """

    def __init__(self, sampler: Optional[Sampler], top: int) -> None:
        """sampler: None takes the likeliest token."""
        self._sampler = sampler
        self._top = top
        self.told: Deque[Tuple[float, Top]] = deque()

    def __call__(self, logits: np.ndarray, ids: Sequence[int]) -> int:
        logprobs = log_softmax(logits)
        token = int(logits.argmax()) if self._sampler is None else self._sampler(logits, ids)
        self.told.append((float(logprobs[token]), likeliest(logprobs, self._top)))
        return token

    @property
    def greedy(self) -> bool:
        return self._sampler is None or self._sampler.greedy

    def margin(self, logits: np.ndarray, ids: Sequence[int]) -> float:
        """As a sampler's."""
        return top_margin(logits) if self._sampler is None else self._sampler.margin(logits, ids)

    def ended(self, ids: Sequence[int]) -> bool:
        return self._sampler is not None and self._sampler.ended(ids)
