"""Drafts from a smaller model with the same tokenizer, whose cache follows the text."""

from typing import TYPE_CHECKING, List, Sequence

from edgeformer.errors import EdgeformerError
from edgeformer.generation.drafting import Drafter, Rate
from edgeformer.generation.drafting.ngram_file import tokenizer_of

if TYPE_CHECKING:
    from edgeformer.model import Model

DEPTHS = 4  # the first tokens of a draft, each counted apart; those behind it with the last
FIRST_PAUSE, LONGEST_PAUSE = 16, 512
BEFORE = 0.75


class SmallerModel(Drafter):
    """Drafts the likeliest tokens of another model.

    While its drafts do not pay it is not run, and so not judged: after a pause it is tried again,
    and each failure doubles the pause.
    """

    def __init__(self, large: "Model", small: "Model") -> None:
        self._backend = small.backend
        self._chunk = min(small.bundle.manifest.chunk, small.bundle.manifest.capacity)
        self.unit = step_cost(small) / step_cost(large)
        self._text: List[int] = []
        self._held: List[int] = []  # tokens whose rows stand in its cache
        self._drafted: List[int] = []  # the last draft, as far as it has not been judged
        self._depth = 0
        self._pause, self._idle = FIRST_PAUSE, 0
        self._forget()

    def begin(self, ids: Sequence[int]) -> None:
        self._text = list(ids)
        self._held = []
        self._mine = self._backend.owner = object()
        self._backend.truncate(0)

    def extend(self, token: int) -> None:
        if self._drafted:
            hit = self._drafted.pop(0) == token
            self._rates[min(self._depth, DEPTHS - 1)].count(hit)
            self._depth += 1
            if not hit:
                self._drafted = []
            elif not self._drafted:
                self._pause = FIRST_PAUSE
        if len(self._text) < len(self._held) and self._held[len(self._text)] != token:
            del self._held[len(self._text) :]
        self._text.append(token)

    def chances(self, most: int) -> List[float]:
        self._idle += 1  # `draft` says otherwise
        if self._idle > self._pause:
            self._idle, self._pause = 0, min(2 * self._pause, LONGEST_PAUSE)
            self._forget()
        return [self._rates[min(depth, DEPTHS - 1)].value for depth in range(most)]

    def draft(self, count: int) -> List[int]:
        self._idle = 0
        backend, text = self._backend, self._text
        if backend.owner is not self._mine:  # somebody has asked it something else
            self._mine = backend.owner = object()
            self._held = []
        # The last token's logits are wanted, so its row is computed again if it is there.
        del self._held[len(text) - 1 :]
        backend.truncate(len(self._held))
        for start in range(len(self._held), len(text), self._chunk):
            part = text[start : start + self._chunk]
            output = backend.step(part, range(start, start + len(part)), [len(part) - 1], "token")
        self._held = list(text)
        draft = [output.tokens[0]]
        while len(draft) < count:
            output = backend.step([draft[-1]], [len(self._held)], [0], "token")
            self._held.append(draft[-1])
            draft.append(output.tokens[0])
        self._drafted, self._depth = list(draft), 0
        return draft

    def _forget(self) -> None:
        self._rates = [Rate(BEFORE, 2.0) for _ in range(DEPTHS)]


# What a byte of weights costs in a step of one token: fewer bits take more work, and a graph of
# more nodes more time. SmolLM2-135M on an AMD EPYC, two threads, fp32 in dialect `ort` as 1
# (benchmarks/results/amd-epyc-2cpu/README.md, docs/cpu.md).
BYTE_COSTS = {"n8": 1.6, "n4": 2.1, "int8-dynamic": 2.1}
PORTABLE = 1.35


def step_cost(model: "Model") -> float:
    """What a step of one token costs, to be held against another model's: a step reads all
    weights, which are the largest file, and that is no matter of timing."""
    manifest = model.bundle.manifest
    cost = max(model.bundle.sizes().values()) * BYTE_COSTS.get(manifest.precision, 1.0)
    return cost * (PORTABLE if manifest.dialect == "portable" else 1.0)


def check_pair(large: "Model", small: "Model") -> None:
    """Refuse a model whose ids mean something else, or that ends before the text does."""
    names = small.bundle.path, large.bundle.path
    if tokenizer_of(small.bundle.manifest) != tokenizer_of(large.bundle.manifest):
        raise EdgeformerError(
            f"{names[0]} cannot draft for {names[1]}: their tokenizers differ; export both from "
            "checkpoints with the same one"
        )
    capacities = small.bundle.manifest.capacity, large.bundle.manifest.capacity
    if capacities[0] < capacities[1]:
        raise EdgeformerError(
            f"{names[0]} has a capacity of {capacities[0]}, {names[1]} of {capacities[1]}; export "
            f"the smaller model with --capacity {capacities[1]}"
        )
    if small is large:
        raise EdgeformerError("a model cannot draft for itself; give a smaller bundle")
