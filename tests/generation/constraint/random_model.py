"""A model of random numbers: what follows depends on the last token and on its position."""

import numpy as np

from edgeformer.backends import Backend, Output


class RandomModel(Backend):
    """Without end: any number of rows. The same numbers with the same seed."""

    name = "random"

    def __init__(self, vocabulary, seed):
        self.seed = seed
        self.by_token = np.random.RandomState(seed).randn(vocabulary, vocabulary)
        self.used = 0

    @property
    def cached(self):
        return self.used

    def step(self, token_ids, positions, rows, want="logits"):
        self.used += len(token_ids)
        last = rows[-1]
        logits = self.by_token[token_ids[last]].copy()
        logits += np.random.RandomState(positions[last] + self.seed).randn(len(logits))
        return Output(2.0 * logits.astype(np.float32)[None], None)

    def truncate(self, rows):
        self.used = rows

    def close(self):
        pass
