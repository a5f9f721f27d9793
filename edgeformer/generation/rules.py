"""What a text so far does to logits: each rule a plain function, -inf for a token that is out.

They change float64 logits [vocab] in place. `choosing.py` has the rules of the draw.
"""

from typing import Sequence, Tuple

import numpy as np

Ids = np.ndarray  # int64, no id twice


def add_bias(logits: np.ndarray, ids: Ids, biases: np.ndarray) -> None:
    """Add a number to the logits of some tokens."""
    logits[ids] += biases


def penalize_repetition(logits: np.ndarray, ids: Ids, penalty: float) -> None:
    """Divide the logits of these tokens by the penalty where positive, else multiply."""
    found = logits[ids]
    logits[ids] = np.where(found < 0, found * penalty, found / penalty)


def penalize_counts(
    logits: np.ndarray, ids: Ids, counts: np.ndarray, frequency: float, presence: float
) -> None:
    """Take `frequency` off a token's logit for each time it was there, and `presence` once."""
    logits[ids] -= frequency * counts + presence


def ban(logits: np.ndarray, ids: Sequence[int]) -> None:
    """Leave these tokens out; ids may be there twice."""
    logits[ids] = -np.inf


def keep_allowed(logits: np.ndarray, allowed: np.ndarray) -> None:
    """Keep the tokens for which a bool says so. Those beyond its end are out."""
    logits[: len(allowed)][~allowed] = -np.inf
    logits[len(allowed) :] = -np.inf


def keep_one(logits: np.ndarray, token: int) -> None:
    """Leave a single token, whatever the other rules did to it."""
    logits[:] = -np.inf
    logits[token] = 0.0


def continued(banned: Sequence[Tuple[int, ...]]) -> "dict":
    """Sequences by their beginning: {all but the last id: the last ids that may not follow}."""
    found: dict = {}
    for sequence in banned:
        found.setdefault(sequence[:-1], []).append(sequence[-1])
    return {prefix: np.array(lasts, np.int64) for prefix, lasts in found.items()}
