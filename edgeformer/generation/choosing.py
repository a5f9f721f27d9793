"""From scores to a token: each rule a plain function, -inf for a token that is out."""

import numpy as np

GROUP = 64
FEW = 256


def likely(logits: np.ndarray, k: int) -> np.ndarray:
    """Ascending ids, among them the k largest and all that equal the last of these; 0 asks for all.

    Of any groups the k largest maxima are k logits, so that nothing below the least of them is
    among the k largest. What it leaves is a few, and all that follows is of these.
    """
    groups = len(logits) // GROUP
    if k == 0 or 2 * k >= len(logits):
        return np.arange(len(logits))
    if k < groups:
        logits_or_maxima = logits[: groups * GROUP].reshape(GROUP, groups).max(axis=0)
    else:
        logits_or_maxima = logits
    border = len(logits_or_maxima) - k
    return np.flatnonzero(logits >= np.partition(logits_or_maxima, border)[border])


def first(keys: np.ndarray, weights: np.ndarray, goal: float) -> np.ndarray:
    """Ids by falling key, of equal keys the lowest id first: the fewest that weigh `goal`.

    A sort of a large vocabulary takes as long as a step of a small model, and nearly all of the
    weight is on few tokens: so it sorts more only where these do not do.
    """
    few = FEW
    ids = likely(keys, few)
    while len(ids) < len(keys) and weights[ids].sum() < goal:
        few *= 8
        ids = likely(keys, few)
    order = ids[np.argsort(-keys[ids], kind="stable")]
    return order[: int(np.searchsorted(np.cumsum(weights[order]), goal)) + 1]


def with_temperature(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Float64 scores with the largest at 0, so that no temperature above 0 can overflow them."""
    scores = np.array(logits, np.float64)  # once, and then in place: fresh memory costs most
    scores -= scores.max()
    with np.errstate(over="ignore"):
        scores /= temperature
    return scores


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
    weights = np.exp(scores - scores.max())
    return keep(scores, first(scores, weights, p * weights.sum()))


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
    with np.errstate(invalid="ignore"):
        log_shares = scores - scores.max()
        log_shares -= np.log(np.exp(log_shares).sum())
        shares = np.exp(log_shares)
        entropy = -np.nansum(shares * log_shares)  # a token that is out: 0 * -inf
    distance = np.abs(log_shares + entropy)
    order = first(-distance, shares, p)
    return keep(scores, np.flatnonzero(distance <= distance[order[-1]]))


def keep(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The scores of these tokens, and all others out."""
    left = np.full_like(scores, -np.inf)
    left[ids] = scores[ids]
    return left


def draw(scores: np.ndarray, point: float) -> int:
    """The token in whose share of the whole probability `point`, in [0, 1), lies."""
    total = scores - scores.max()
    np.cumsum(np.exp(total, out=total), out=total)
    # side="right": a token without probability has no share, so it is never drawn.
    return int(np.searchsorted(total, point * total[-1], side="right"))


def top_margin(scores: np.ndarray) -> float:
    """How far the best score lies before all others; 0 where two are the best."""
    best = int(scores.argmax())
    others = [float(part.max()) for part in (scores[:best], scores[best + 1 :]) if len(part)]
    return float(scores[best]) - max(others, default=-np.inf)
