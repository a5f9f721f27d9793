"""What every backend checks about a step before it, and about its logits after it."""

from typing import List, NamedTuple, Sequence

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.manifest import Manifest

NOT_FINITE = "its weights or its precision are broken; run: python -m edgeformer check BUNDLE"

WANTED = ("logits", "token")


class StepLimits(NamedTuple):
    """What a graph can answer; beyond it lies garbage."""

    chunk: int
    vocabulary: int
    max_positions: int

    @classmethod
    def of(cls, manifest: Manifest) -> "StepLimits":
        sizes = manifest.model
        chunk = min(manifest.chunk, manifest.capacity)
        return cls(chunk, sizes["vocab_size"], sizes["max_positions"])

    def check(
        self, token_ids: Sequence[int], positions: Sequence[int], rows: Sequence[int], want: str
    ) -> int:
        """The number of rows to keep: those with a position."""
        count = len(token_ids)
        if not 1 <= count <= self.chunk or len(positions) != count:
            raise EdgeformerError(
                f"a step has {count} tokens and {len(positions)} positions; it takes "
                f"1 to {self.chunk} tokens with one position each"
            )
        if min(token_ids) < 0 or max(token_ids) >= self.vocabulary:
            wrong = min(token_ids) if min(token_ids) < 0 else max(token_ids)
            raise EdgeformerError(f"token id {wrong} is not in 0 to {self.vocabulary - 1}")
        if min(positions) < -1 or max(positions) >= self.max_positions:
            wrong = min(positions) if min(positions) < -1 else max(positions)
            raise EdgeformerError(
                f"position {wrong} is not in -1 to {self.max_positions - 1}, "
                f"the positions that the model knows"
            )
        if not 1 <= len(rows) <= count or min(rows) < 0 or max(rows) >= count:
            raise EdgeformerError(f"rows {list(rows)[:8]} must name 1 to {count} of {count} tokens")
        if want not in WANTED:
            raise EdgeformerError(f'a step gives "logits" or "token", not {want!r}')
        return count - list(positions).count(-1)


def most_likely(logits: np.ndarray) -> List[int]:
    """The token of the largest logit in each row, which must be a number."""
    tokens = []
    for row in logits:
        token = int(row.argmax())
        if not -np.inf < row[token] < np.inf:  # argmax finds a NaN before any number
            raise EdgeformerError(f"the model gave a logit of {row[token]}: {NOT_FINITE}")
        tokens.append(token)
    return tokens
