"""From scores to a token: each rule a plain function, -inf for a token that is out."""

import numpy as np

GROUP = 64


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


def keep_min_p(scores: np.ndarray, p: float) -> np.ndarray:
    """Keep the tokens that are at least p times as likely as the likeliest one. 0 keeps all."""
    if p == 0.0:
        return scores
    return np.where(np.exp(scores - scores.max()) < p, -np.inf, scores)


def keep_typical(scores: np.ndarray, p: float) -> np.ndarray:
    """Keep the tokens whose surprise is nearest the expected one, until they have probability p.

    Tokens as near as the last one stay too. 1 keeps all.
    """
    if p >= 1.0:
        return scores
    alive = np.flatnonzero(scores > -np.inf)
    log_shares = scores[alive] - scores.max()
    log_shares -= np.log(np.exp(log_shares).sum())
    shares = np.exp(log_shares)
    entropy = -(shares * log_shares).sum()
    distance = np.abs(-log_shares - entropy)
    order = np.argsort(distance, kind="stable")
    last = int(np.searchsorted(np.cumsum(shares[order]), p))
    border = distance[order[min(last, len(order) - 1)]]
    kept = alive[distance <= border]
    left = np.full_like(scores, -np.inf)
    left[kept] = scores[kept]
    return left


def draw(scores: np.ndarray, point: float) -> int:
    """The token in whose share of the whole probability `point`, in [0, 1), lies."""
    total = np.cumsum(np.exp(scores - scores.max()))
    # side="right": a token without probability has no share, so it is never drawn.
    return int(np.searchsorted(total, point * total[-1], side="right"))
