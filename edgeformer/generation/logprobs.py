"""Log-probabilities of a model's own distribution, in float64: before any rule of sampling."""

from typing import Tuple

import numpy as np

from edgeformer.generation.choosing import likely
from edgeformer.generation.processor import refuse_broken

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
