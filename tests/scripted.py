"""A backend that reads its answers from a script: the stream loop's cases, without a model."""

import numpy as np

from edgeformer.backends import Backend, Output


class ScriptedBackend(Backend):
    """After a prompt of `prompt` tokens it gives `tokens` in order, or the same `logits` always.

    `calls` holds (token_ids, positions, rows, want) of every step.
    """

    name = "scripted"

    def __init__(self, prompt, tokens=(), logits=None, vocabulary=1000):
        self.prompt = prompt
        self.tokens = list(tokens)
        self.logits = logits
        self.vocabulary = vocabulary
        self.calls = []
        self.used = 0

    @property
    def cached(self):
        return self.used

    def step(self, token_ids, positions, rows, want="logits"):
        self.calls.append((list(token_ids), list(positions), list(rows), want))
        self.used += len(token_ids)
        index = positions[rows[0]] + 1 - self.prompt
        token = self.tokens[index % len(self.tokens)] if self.tokens and index >= 0 else 0
        if want == "token":
            return Output(None, [token])
        logits = np.zeros((1, self.vocabulary), np.float32)
        logits[0, token] = 50.0
        return Output(logits if self.logits is None else np.array([self.logits]), None)

    def truncate(self, rows):
        self.used = rows

    def close(self):
        pass
