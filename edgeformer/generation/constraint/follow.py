"""A constraint on an answer, whatever engine knows what fits."""

from typing import List, Sequence

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation.constraint.vocabulary import Vocabulary
from edgeformer.generation.processor import Constraint


class Matcher:
    """Where an engine stands in a text, entry by entry of Vocabulary.tokens."""

    def push(self, entry: int) -> None:
        """Go on by an entry that `mask` allowed."""
        raise NotImplementedError

    def pop(self, count: int) -> None:
        """Take the last pushes back."""
        raise NotImplementedError

    def mask(self) -> np.ndarray:
        """bool [entries]: those that can go on; none of them ends the text."""
        raise NotImplementedError

    def may_end(self) -> bool:
        """Whether the text is whole as it is."""
        raise NotImplementedError


class Followed(Constraint):
    """Follows an answer from call to call.

    A call costs what the ids since the last one cost, also where some of those were taken back.
    One may serve several answers in turns; each turn costs where they part.
    """

    def __init__(
        self, matcher: Matcher, vocabulary: Vocabulary, after_text: bool, what: str
    ) -> None:
        """what: "regex" or "JSON schema", for messages."""
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._first = vocabulary.first[:0] if after_text else vocabulary.first
        entries = range(vocabulary.rows, vocabulary.rows + len(self._first))
        self._entry_of_first = dict(zip(self._first.tolist(), entries))
        self._what = what
        self._ids: List[int] = []
        self._goes_on = self._mask_here()

    def mask(self, new_ids: Sequence[int]) -> np.ndarray:
        self._follow(new_ids)
        if not self._goes_on.any() and not self._matcher.may_end():
            raise EdgeformerError(
                f"after {self._written()} no token of the vocabulary goes on as the {self._what} "
                "asks; ask for what this tokenizer can write"
            )
        return self._goes_on

    def may_end(self, new_ids: Sequence[int]) -> bool:
        self._follow(new_ids)
        return self._matcher.may_end()

    def ended(self, new_ids: Sequence[int]) -> bool:
        return self.may_end(new_ids) and not self._goes_on.any()

    def _follow(self, ids: Sequence[int]) -> None:
        known, ids = self._ids, list(ids)
        if known == ids:
            return
        same = len(known)
        if known != ids[:same]:
            pairs = enumerate(zip(known, ids))
            same = next((i for i, (old, new) in pairs if old != new), min(len(known), len(ids)))
            self._matcher.pop(len(known) - same)
            del known[same:]
            self._goes_on = self._mask_here()
        for each in ids[same:]:
            if not self._goes_on[each]:
                raise EdgeformerError(
                    f"token {each} cannot follow {self._written()}: the {self._what} forbids it"
                )
            entry = each if known else self._entry_of_first.get(each, each)
            self._matcher.push(entry)
            known.append(each)
            self._goes_on = self._mask_here()

    def _mask_here(self) -> np.ndarray:
        entries = self._matcher.mask()
        allowed = entries[: self._vocabulary.rows]
        if not self._ids and len(self._first):
            allowed = allowed.copy()
            allowed[self._first] = entries[self._vocabulary.rows :]
        return allowed

    def _written(self) -> str:
        tokens = self._vocabulary.tokens
        text = b"".join(tokens[each] for each in self._ids[-40:]).decode("utf-8", "replace")
        return repr(text[-40:])
