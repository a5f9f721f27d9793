"""The sampling rules against the ones of transformers."""

import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from edgeformer.generation.choosing import keep_top_k, keep_top_p, with_temperature


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("temperature", "k", "p"),
    [(0.7, 40, 0.9), (1.0, 1, 0.5), (2.5, 1000, 0.99), (0.1, 5, 0.3), (1.3, 200, 0.05)],
)
def test_the_same_tokens_stay_with_the_same_probabilities(seed, temperature, k, p):
    logits = np.random.RandomState(seed).standard_normal(1000).astype(np.float32) * 3
    scores = torch.from_numpy(logits.astype(np.float64))[None]
    for rule in (TemperatureLogitsWarper(temperature), TopKLogitsWarper(k), TopPLogitsWarper(p)):
        scores = rule(None, scores)
    wanted = scores.softmax(-1)[0].numpy()
    found = keep_top_p(keep_top_k(with_temperature(logits, temperature), k), p)
    found = np.exp(found) / np.exp(found).sum()
    assert ((found > 0) == (wanted > 0)).all()
    assert np.allclose(found, wanted, rtol=1e-9, atol=0)
