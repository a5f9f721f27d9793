"""How far an engine's logits are from float32's on windows of a text: numpy alone."""

import math
from typing import Callable, Dict, Sequence

import numpy as np


def divergence(
    windows: Sequence[Sequence[int]],
    wanted: Sequence[np.ndarray],
    logits: Callable[[Sequence[int]], np.ndarray],
) -> Dict[str, float]:
    """`wanted`: float32 [T, vocab] a window. Each token but a window's first is predicted once."""
    nats = reference = kl = equal = tokens = 0.0
    for ids, want in zip(windows, wanted):
        got = logits(ids)
        if not np.isfinite(got).all():
            raise SystemExit("the engine gives logits that are no numbers")
        p, q = log_softmax(want[:-1]), log_softmax(got[:-1])
        at = np.arange(len(ids) - 1), np.asarray(ids[1:])
        nats, reference = nats - q[at].sum(), reference - p[at].sum()
        kl += (np.exp(p) * (p - q)).sum()
        equal += (p.argmax(1) == q.argmax(1)).sum()
        tokens += len(ids) - 1
    return {
        "tokens": int(tokens),
        "perplexity": math.exp(nats / tokens),
        "reference_perplexity": math.exp(reference / tokens),
        "kl": kl / tokens,
        "top1": equal / tokens,
    }


def log_softmax(x: np.ndarray) -> np.ndarray:
    """float64, over the last axis."""
    x = x.astype(np.float64) - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))
