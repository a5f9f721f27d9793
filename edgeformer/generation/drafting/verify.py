"""Steps of a stream: one token at a time, or a draft at once, with the same tokens in the end."""

from time import perf_counter
from typing import Callable, Collection, List, Optional, Sequence

import numpy as np

from edgeformer.backends import Backend, Output
from edgeformer.backends.steps import most_likely
from edgeformer.errors import EdgeformerError
from edgeformer.generation.choosing import top_margin
from edgeformer.generation.drafting import Drafter
from edgeformer.generation.drafting.pace import cost_of
from edgeformer.generation.sampling import Sampler
from edgeformer.manifest import EXACT

Margin = Callable[[np.ndarray, Sequence[int]], float]

# Logits of one token differ from those of several at once by rounding: in float32 by 6e-5 of 20 in
# SmolLM2-135M. Two tokens nearer to each other than this, relative to the largest logit, are a tie,
# which only the steps of plain decoding may break.
ROUNDING = 1e-5


def refuse_rounding(backend: Backend) -> None:
    """Greedy tokens of a draft are those of plain decoding only where rounding is small."""
    if backend.precision != "fp32" and not backend.exact_steps:
        way = "use an fp32 bundle"
        if backend.precision == EXACT:
            way = "export it with --exact-steps, or " + way
        raise EdgeformerError(
            f"this model computes in {backend.precision}, where a step of several tokens rounds "
            f"otherwise than steps of one, so that drafts could change the likeliest token; {way}, "
            "or draw with a temperature, or leave drafting off"
        )


class Drafted:
    """What drafting did for one stream."""

    def __init__(self) -> None:
        self.steps = 0  # of the model, behind the prompt; those that broke a tie count
        self.drafted = 0
        self.accepted = 0
        self.singles: List[float] = []  # seconds of the steps of one token
        self.new: List[bool] = []  # of each token behind the first: was a step run for it?

    @property
    def one_token_s(self) -> Optional[float]:
        ordered, half = sorted(self.singles), len(self.singles) // 2
        return (ordered[half] + ordered[-1 - half]) / 2 if ordered else None


class PlainSteps:
    """The steps of a stream without drafts: one for each token."""

    def __init__(self, backend: Backend, want: str) -> None:
        self._backend, self._want = backend, want

    def after(self, ids: Sequence[int]) -> Output:
        """What follows a text, whose last token has no row yet."""
        return self._backend.step([ids[-1]], [len(ids) - 1], [0], self._want)

    def end(self) -> None:
        """Leave no row of a token that was not taken."""


class DraftSteps(PlainSteps):
    """Runs a drafter ahead and hands out, token by token, what was scored at once.

    The loop chooses each token from its own position's logits and history, by all of its rules;
    what it chose is compared with the draft. So a seed's numbers are taken one for each token of
    the text, and a draft changes neither which nor what is made of them.
    """

    def __init__(
        self,
        backend: Backend,
        want: str,
        drafter: Drafter,
        last: int,
        chunk: int,
        margin: Optional[Margin],
        done: Drafted,
        end_ids: Collection[int] = (),
    ) -> None:
        """`last`: the position of the stream's last token. `margin`: how far a greedy choice lies
        before the next best; None where tokens are drawn, or come as tokens."""
        super().__init__(backend, want)
        self._drafter, self._last, self._margin, self._done = drafter, last, margin, done
        self._end_ids = end_ids
        self._cost = cost_of(backend)
        self._most = min(self._cost.most, chunk)
        # Where steps of several tokens give the bits of steps of one, nothing is ever tied.
        self._careful = (want == "token" or margin is not None) and not backend.exact_steps
        self._many = "logits" if self._careful else want
        self._begun = False
        self._pending: List[int] = []  # drafted tokens whose rows stand in the cache
        # what is behind the token before them, and each of them
        self._rows: Optional[Output] = None
        self._at = 0  # the next of them
        self._inexact: Optional[int] = None  # the first row that a step of several tokens made

    def after(self, ids: Sequence[int]) -> Output:
        self._follow(ids)
        if self._at < len(self._pending) and self._pending[self._at] == ids[-1]:
            self._at += 1
            self._done.accepted += 1
            self._done.new.append(False)
            return self._given(ids)
        self._done.new.append(True)
        self._drop(len(ids) - 1)
        return self._step(ids)

    def end(self) -> None:
        if self._backend.cached:  # else it is closed
            self._drop(self._backend.cached - (len(self._pending) - self._at))

    def _follow(self, ids: Sequence[int]) -> None:
        if self._begun:
            self._drafter.extend(ids[-1])
        else:
            self._drafter.begin(ids)
            self._begun = True

    def _drop(self, rows: int) -> None:
        if self._at < len(self._pending):
            self._backend.truncate(rows)
        self._pending, self._rows, self._at = [], None, 0

    def _step(self, ids: Sequence[int]) -> Output:
        """Run the last token, and with it a draft if one pays."""
        position = len(ids) - 1
        most = min(self._most - 1, self._last - position - 1)
        count = self._drafter.best(most, self._cost)[0] if most > 0 else 0
        if count == 0:
            return self._single(ids)
        draft = self._drafter.draft(count)
        for index, token in enumerate(draft):
            if token in self._end_ids:  # nothing follows it, and its own row is for nobody
                del draft[index:]
                break
        if not draft:
            return self._single(ids)
        tokens = [ids[-1], *draft]
        positions = range(position, position + len(tokens))
        if self._inexact is None:
            self._inexact = position
        output = self._backend.step(tokens, positions, range(len(tokens)), self._many)
        self._pending, self._rows, self._at = draft, output, 0
        self._done.steps += 1
        self._done.drafted += len(draft)
        return self._given(ids)

    def _single(self, ids: Sequence[int]) -> Output:
        # A step that follows inexact rows is as inexact as they are.
        exact = self._inexact is None or not self._careful
        started = perf_counter()
        output = self._backend.step(
            [ids[-1]], [len(ids) - 1], [0], self._want if exact else "logits"
        )
        self._done.singles.append(perf_counter() - started)
        self._done.steps += 1
        return output if exact else self._exact(output.logits[0], ids)

    def _given(self, ids: Sequence[int]) -> Output:
        """The output of the step's next row."""
        at, rows = self._at, self._rows
        if self._careful:
            return self._exact(rows.logits[at], ids)
        if rows.logits is None:
            return Output(None, rows.tokens[at : at + 1])
        return Output(rows.logits[at : at + 1], None)

    def _exact(self, logits: np.ndarray, ids: Sequence[int]) -> Output:
        """What logits say that a draft has touched; where they are tied, what plain steps say."""
        if self._want == "token":
            token = most_likely(logits[None])[0]
            margin = top_margin(logits)
        else:
            margin = self._margin(logits, ids)
        if margin <= ROUNDING * max(1.0, float(np.abs(logits).max())):
            return self._again(ids)
        return Output(None, [token]) if self._want == "token" else Output(logits[None], None)

    def _again(self, ids: Sequence[int]) -> Output:
        """Compute the rows that differ by rounding as plain decoding does, one by one."""
        start, self._inexact = self._inexact, None
        self._pending, self._rows, self._at = [], None, 0
        self._backend.truncate(start)
        for position in range(start, len(ids)):
            last = position == len(ids) - 1
            want = self._want if last else "token"
            output = self._backend.step([ids[position]], [position], [0], want)
            self._done.steps += 1
        return output


def steps_for(
    backend: Backend,
    sampler: Optional[Sampler],
    last: int,
    chunk: int,
    drafter: Optional[Drafter],
    done: Optional[Drafted],
    end_ids: Collection[int] = (),
) -> PlainSteps:
    """How a stream's steps are run. `last`: the position of its last token."""
    want = "token" if sampler is None else "logits"
    if drafter is None:
        return PlainSteps(backend, want)
    margin = sampler.margin if sampler is not None and sampler.greedy else None
    return DraftSteps(backend, want, drafter, last, chunk, margin, done or Drafted(), end_ids)
