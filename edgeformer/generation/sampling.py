"""From logits to a token: each rule a plain function of logits, -inf for a token that is out."""

import os
from typing import Optional, Tuple

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation.params import SamplingParams

GROUP = 64


def new_seed() -> int:
    """A seed that nobody has to think of, from the system's randomness."""
    return int.from_bytes(os.urandom(4), "little")


class Sampler:
    """Draws tokens by a SamplingParams with a temperature. One for each stream."""

    def __init__(self, params: SamplingParams, seed: int) -> None:
        self._params = params
        # RandomState, since its streams are frozen: equal on every numpy. It takes 32-bit words.
        words = [seed & 0xFFFFFFFF, seed >> 32]
        self._random = np.random.RandomState(np.array(words, np.uint32))

    def __call__(self, logits: np.ndarray) -> int:
        refuse_broken(logits)
        ids = likely(logits, self._params.top_k)
        scores = with_temperature(logits[ids], self._params.temperature)
        scores = keep_top_k(scores, self._params.top_k)
        scores = keep_top_p(scores, self._params.top_p)
        return int(ids[draw(scores, self._random.random_sample())])


def refuse_broken(logits: np.ndarray) -> None:
    """Stop at NaN and infinity: whatever was drawn from them would look like an answer."""
    if not np.isfinite(logits).all():
        bad = logits[~np.isfinite(logits)]
        raise EdgeformerError(
            f"the model gave {len(bad)} logits of {len(logits)} that are no numbers "
            f"(the first: {bad[0]}); run: python -m edgeformer check BUNDLE"
        )


def likely(logits: np.ndarray, k: int) -> np.ndarray:
    """Ascending ids, among them the k largest and all that equal the last of these; 0 asks for all.

    Of any groups the k largest maxima are k logits, so that nothing below the least of them is
    among the k largest. What it leaves is a few, and all that follows is of these.
    """
    groups = len(logits) // GROUP
    if k == 0 or groups <= k:
        return np.arange(len(logits))
    maxima = logits[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
    return np.flatnonzero(logits >= np.partition(maxima, groups - k)[groups - k])


def with_temperature(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Float64 scores with the largest at 0, so that no temperature above 0 can overflow them."""
    scores = np.asarray(logits, np.float64)
    with np.errstate(over="ignore"):
        return (scores - scores.max()) / temperature


def keep_top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Keep the k largest; of equal ones at the border, those with the lowest ids. 0 keeps all."""
    if k == 0 or k >= len(scores):
        return scores
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    kept = scores > border
    level = np.flatnonzero(scores == border)
    kept[level[: k - np.count_nonzero(kept)]] = True
    return np.where(kept, scores, -np.inf)


def keep_top_p(scores: np.ndarray, p: float) -> np.ndarray:
    """Keep the fewest likeliest tokens that together have probability p; always at least one."""
    if p >= 1.0:
        return scores
    alive = np.flatnonzero(scores > -np.inf)
    order = alive[np.argsort(-scores[alive], kind="stable")]
    total = np.cumsum(np.exp(scores[order] - scores[order[0]]))
    count = int(np.searchsorted(total, p * total[-1])) + 1
    kept = np.full_like(scores, -np.inf)
    kept[order[:count]] = scores[order[:count]]
    return kept


def draw(scores: np.ndarray, point: float) -> int:
    """The token in whose share of the whole probability `point`, in [0, 1), lies."""
    total = np.cumsum(np.exp(scores - scores.max()))
    # side="right": a token without probability has no share, so it is never drawn.
    return int(np.searchsorted(total, point * total[-1], side="right"))


def sampler_for(params: SamplingParams) -> Tuple[Optional[Sampler], Optional[int]]:
    """None for greedy, where a seed says nothing; else a sampler and the seed that it got."""
    if params.temperature == 0.0:
        return None, params.seed
    seed = new_seed() if params.seed is None else params.seed
    return Sampler(params, seed), seed
