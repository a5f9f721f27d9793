"""From the logits of a model to those of a stream: the rules before the draw, in their order."""

from typing import Iterable, Optional, Sequence

import numpy as np

from edgeformer.errors import EdgeformerError
from edgeformer.generation import rules
from edgeformer.generation.history import History
from edgeformer.generation.params import SamplingParams


class Constraint:
    """What an answer may be: the shape of an object that a stream may be given."""

    def mask(self, new_ids: Sequence[int]) -> np.ndarray:
        """bool [vocab]: the tokens that may follow an answer. End tokens are not looked at."""
        raise NotImplementedError

    def may_end(self, new_ids: Sequence[int]) -> bool:
        """Whether the answer may be over here: whether an end token may follow."""
        raise NotImplementedError

    def ended(self, new_ids: Sequence[int]) -> bool:
        """Whether the answer is whole and nothing may follow: it ends without an end token."""
        return False


class Processor:
    """The rules that change logits, before one is drawn or the largest is taken. One for each text.

    Beams and drafts ask it about several continuations of a text: see `History`.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt: int,
        end_ids: Iterable[int] = (),
        constraint: Optional[Constraint] = None,
    ) -> None:
        """`params` are checked ones; the first `prompt` ids of the text are no answer."""
        self._params = params
        self._prompt = prompt
        self._end_ids = np.array(sorted(end_ids), np.int64)
        self._constraint = constraint
        self._bias_ids = np.array([token for token, _ in params.logit_bias], np.int64)
        self._biases = np.array([bias for _, bias in params.logit_bias], np.float64)
        self._banned = np.array([e for e in params.banned_tokens if isinstance(e, int)], np.int64)
        self._continued = rules.continued([e for e in params.banned_tokens if isinstance(e, tuple)])
        self._lengths = sorted({len(prefix) for prefix in self._continued})
        self._counting = counts(params)
        self._history: Optional[History] = None

    @property
    def active(self) -> bool:
        """Whether any rule is asked for: without one, logits stay what they are."""
        return changes_logits(self._params) or self._constraint is not None

    def __call__(self, logits: np.ndarray, ids: Sequence[int]) -> np.ndarray:
        """Logits [vocab] of what follows the text `ids`, changed: float64, the caller's own."""
        refuse_broken(logits)
        if self._history is None:
            self._params.check_vocabulary(len(logits))
            self._history = History(len(logits), self._prompt, self._params.no_repeat_ngram_size)
        changed = logits.astype(np.float64)
        if self._constraint is not None:
            self._keep_allowed(changed, ids)
        rules.add_bias(changed, self._bias_ids, self._biases)
        if self._counting:
            self._history.follow(ids)
            self._penalize(changed, ids)
        rules.ban(changed, self._banned)
        for length in self._lengths:
            if len(ids) >= length:
                last = self._continued.get(tuple(ids[len(ids) - length :]))
                if last is not None:
                    rules.ban(changed, last)
        new = len(ids) - self._prompt
        if new < self._params.min_new_tokens:
            rules.ban(changed, self._end_ids)
        if new < len(self._params.forced_tokens):
            self._force(changed, self._params.forced_tokens[new])
        self._refuse_nothing(changed)
        return changed

    def ended(self, ids: Sequence[int]) -> bool:
        """Whether the constraint lets nothing follow the text `ids`."""
        return self._constraint is not None and self._constraint.ended(ids[self._prompt :])

    def _keep_allowed(self, logits: np.ndarray, ids: Sequence[int]) -> None:
        new_ids = ids[self._prompt :]
        may_end = self._constraint.may_end(new_ids)
        ends = logits[self._end_ids]
        rules.keep_allowed(logits, self._constraint.mask(new_ids))
        logits[self._end_ids] = ends if may_end else -np.inf

    def _penalize(self, logits: np.ndarray, ids: Sequence[int]) -> None:
        params, history = self._params, self._history
        if params.repetition_penalty != 1.0:
            rules.penalize_repetition(logits, history.text.ids, params.repetition_penalty)
        if params.frequency_penalty or params.presence_penalty:
            answer = history.answer
            rules.penalize_counts(
                logits,
                answer.ids,
                answer.counts,
                params.frequency_penalty,
                params.presence_penalty,
            )
        if history.ngrams is not None:
            rules.ban(logits, history.ngrams.after(ids))

    def _force(self, logits: np.ndarray, token: int) -> None:
        if self._constraint is not None and logits[token] == -np.inf:
            raise EdgeformerError(
                f"forced_tokens has {token}, which the constraint on the answer refuses there"
            )
        rules.keep_one(logits, token)

    def _refuse_nothing(self, logits: np.ndarray) -> None:
        if logits.max() == -np.inf:
            raise EdgeformerError(
                f"the rules leave none of {len(logits)} tokens: look at banned_tokens, "
                "no_repeat_ngram_size, min_new_tokens and the constraint, if there is one"
            )


def counts(params: SamplingParams) -> bool:
    """Whether a rule looks at how often which tokens were there."""
    return bool(
        params.repetition_penalty != 1.0
        or params.frequency_penalty
        or params.presence_penalty
        or params.no_repeat_ngram_size
    )


def changes_logits(params: SamplingParams) -> bool:
    """Whether a rule changes logits, so that the likeliest token may be another one."""
    return bool(
        counts(params)
        or params.logit_bias
        or params.banned_tokens
        or params.forced_tokens
        or params.min_new_tokens
    )


def refuse_broken(logits: np.ndarray) -> None:
    """Stop at NaN and infinity: whatever was drawn from them would look like an answer."""
    if not np.isfinite(logits).all():
        bad = logits[~np.isfinite(logits)]
        raise EdgeformerError(
            f"the model gave {len(bad)} logits of {len(logits)} that are no numbers "
            f"(the first: {bad[0]}); run: python -m edgeformer check BUNDLE"
        )
