"""Drafters for tests: they know the text to come, and are wrong where a test wants them to be."""

import numpy as np

from edgeformer.backends import Backend, Output
from edgeformer.generation.drafting import Drafter


class Told(Drafter):
    """Drafts what `text` says, prompt and answer; each `wrong`-th position is another token."""

    def __init__(self, text, wrong=0, most=100):
        self.text, self.wrong, self.most = list(text), wrong, most
        self.length = 0

    def begin(self, ids):
        self.length = len(ids)

    def extend(self, token):
        self.length += 1

    def chances(self, most):
        left = len(self.text) - self.length
        return [0.99] * max(0, min(most, left, self.most))

    def draft(self, count):
        found = []
        for position in range(self.length, self.length + count):
            other = self.wrong and position % self.wrong == 0
            found.append(self.text[position] ^ 1 if other else self.text[position])
        return found


class MarkovBackend(Backend):
    """A model that can be written down: the next token's logits are a row of a table."""

    name = "markov"

    def __init__(self, logits):
        self.table = np.asarray(logits, np.float32)
        self.used = 0

    @property
    def cached(self):
        return self.used

    def step(self, token_ids, positions, rows, want="logits"):
        assert list(positions) == list(range(self.used, self.used + len(token_ids)))
        self.used += len(token_ids)
        logits = self.table[[token_ids[row] for row in rows]]
        if want == "token":
            return Output(None, [int(row.argmax()) for row in logits])
        return Output(logits.copy(), None)

    def truncate(self, rows):
        assert rows <= self.used
        self.used = rows

    def close(self):
        pass
