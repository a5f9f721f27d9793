"""Beam search: the likeliest answers of a prompt, by the rules of `transformers`."""

from typing import Collection, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from edgeformer.asked import integer, number
from edgeformer.backends import Backend
from edgeformer.errors import EdgeformerError
from edgeformer.generation.beam_rows import BranchedRows, Node
from edgeformer.generation.cache import Reuse
from edgeformer.generation.choosing import likely
from edgeformer.generation.logprobs import log_softmax
from edgeformer.generation.loop import Limits
from edgeformer.generation.params import SamplingParams
from edgeformer.generation.prefill import prefill, refuse_length
from edgeformer.generation.processor import Processor
from edgeformer.generation.stop import Halt

MOST_BEAMS = 256


class Rules(NamedTuple):
    """How many beams, and when a search may end.

    A finished answer's score is its log-probability divided by its length, in tokens, to the
    power of `length_penalty`: above 0 for longer answers, below it for shorter ones.
    early_stopping: True ends with as many finished answers as beams; False where the best beam at
    its present length could not beat the worst of them; "never" where it could not at any length.
    """

    beams: int
    length_penalty: float = 1.0
    early_stopping: Union[bool, str] = False

    def checked(self) -> "Rules":
        beams = integer("beams", self.beams, 1, MOST_BEAMS)
        penalty = number("length_penalty", self.length_penalty, -10, 10, "from -10 to 10")
        early = self.early_stopping
        if not isinstance(early, bool) and early != "never":
            raise EdgeformerError(f'early_stopping is {early!r}; it must be True, False or "never"')
        return Rules(beams, penalty, early)


class Finished(NamedTuple):
    """An answer that is over."""

    score: float
    tokens: Tuple[int, ...]
    finish_reason: str
    logprob: float  # of all its tokens


Beam = Tuple[float, Optional[Node]]  # log-probability so far; None: nothing behind the prompt
Candidate = Tuple[float, Optional[Node], int]  # with the next token: a beam, and the token


def search(
    backend: Backend,
    prompt_ids: Sequence[int],
    rules: Rules,
    params: SamplingParams,
    eos_ids: Collection[int],
    capacity: int,
    chunk: int,
) -> List[Finished]:
    """The best answers, at most as many as beams, the best first. Takes the backend's cache.

    At a deadline the beams that are still open count as finished.
    """
    refuse_length(len(prompt_ids), capacity)
    return _Search(backend, prompt_ids, rules, params, eos_ids, capacity).run(min(chunk, capacity))


class _Search:
    def __init__(
        self,
        backend: Backend,
        prompt_ids: Sequence[int],
        rules: Rules,
        params: SamplingParams,
        eos_ids: Collection[int],
        capacity: int,
    ) -> None:
        self._backend = backend
        self._prompt = list(prompt_ids)
        self._rules = rules
        self._eos_ids = eos_ids
        self._rows = BranchedRows(backend, len(prompt_ids))
        self._processor = Processor(params, len(prompt_ids), eos_ids)
        limits = Limits(len(prompt_ids), params, capacity)
        self._most, self._reason = limits.last - len(prompt_ids) + 1, limits.reason
        self._halt = Halt(params.deadline_s)
        self._finished: List[Finished] = []

    def run(self, chunk: int) -> List[Finished]:
        self._halt.begin()
        self._backend.owner = object()
        start = Reuse().take(self._backend, self._prompt, chunk)
        output = prefill(self._backend, self._prompt, chunk, "logits", self._halt, start)
        if output is None:
            return []
        beams: List[Beam] = [(0.0, None)]
        logits = [output.logits[0]]
        for length in range(1, self._most + 1):
            candidates = self._candidates(beams, logits)
            open_ones, over = self._parted(candidates, length)
            self._finish(over, length)
            beams = [(score, Node(token, node)) for score, node, token in open_ones]
            if length == self._most or not beams or not self._goes_on(beams[0][0], length):
                break
            if self._halt.reason() is not None:
                self._finish_open(beams, length)
                break
            logits = self._logits([node for _, node in beams])
        return self._finished

    def _logits(self, nodes: List[Node]) -> List[np.ndarray]:
        """Those that begin alike one after the other, so that few rows have to be moved."""
        found: List[np.ndarray] = [None] * len(nodes)
        for index in sorted(range(len(nodes)), key=lambda each: nodes[each].tokens()):
            found[index] = self._rows.logits(nodes[index])
        return found

    def _candidates(self, beams: List[Beam], logits: List[np.ndarray]) -> List[Candidate]:
        """The likeliest continuations by one token; enough that beams are left if many end."""
        wanted = max(2, 1 + len(self._eos_ids)) * self._rules.beams
        found: List[Candidate] = []
        for (score, node), row in zip(beams, logits):
            logprobs = log_softmax(row)
            if self._processor.active:
                text = self._prompt + ([] if node is None else node.tokens())
                logprobs = self._processor(logprobs, text)
            ids = likely(logprobs, min(wanted, len(logprobs)))
            likeliest = [(score + float(logprobs[token]), node, int(token)) for token in ids]
            found += [each for each in likeliest if each[0] > -np.inf]  # not what a rule bans
        # A stable sort: of equal ones the first beam's, and of a beam's the lowest id.
        found.sort(key=lambda candidate: -candidate[0])
        return found[:wanted]

    def _parted(
        self, candidates: List[Candidate], length: int
    ) -> Tuple[List[Candidate], List[Candidate]]:
        """The beams that go on, and those that end here. Only the best may end; the others are
        there to go on in their place."""
        ends = [length == self._most or token in self._eos_ids for _, _, token in candidates]
        over = [each for each, end in zip(candidates[: self._rules.beams], ends) if end]
        open_ones = [each for each, end in zip(candidates, ends) if not end]
        return open_ones[: self._rules.beams], over

    def _finish(self, over: List[Candidate], length: int) -> None:
        for logprob, node, token in over:
            reason = "stop" if token in self._eos_ids else self._reason
            self._keep(logprob, Node(token, node), length, reason)

    def _finish_open(self, beams: List[Beam], length: int) -> None:
        for logprob, node in beams:
            self._keep(logprob, node, length, self._halt.reason())

    def _keep(self, logprob: float, node: Node, length: int, reason: str) -> None:
        """Keep an answer that is over, if it is among the best."""
        score = logprob / length**self._rules.length_penalty
        self._finished.append(Finished(score, tuple(node.tokens()), reason, logprob))
        self._finished.sort(key=lambda each: -each.score)
        del self._finished[self._rules.beams :]

    def _full(self) -> bool:
        return len(self._finished) == self._rules.beams

    def _goes_on(self, best: float, length: int) -> bool:
        if self._rules.early_stopping is True and self._full():
            return False
        return self._may_improve(best, length)

    def _may_improve(self, best: float, length: int) -> bool:
        """Whether the best open beam could still outdo the worst finished one."""
        if not self._full():
            return True
        penalty = self._rules.length_penalty
        if self._rules.early_stopping == "never" and penalty > 0.0:
            length = self._most
        return best / length**penalty > self._finished[-1].score
