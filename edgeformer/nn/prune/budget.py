"""What a pruned model may cost, and which kinds of parts go for it: where least is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.costs import costs
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.prune.decoder import prune_decoder
from edgeformer.nn.prune.removal import Removal, largest_removal, pruned_config, widths

ROUNDS = 4  # the way to the budget is gone in so many steps, each where it costs least


class Budget(NamedTuple):
    """At most `limit` of what `cost` says of a config; `unit` names it."""

    unit: str
    limit: float
    cost: Callable[[ModelConfig], float]


class Trial(NamedTuple):
    """One way to go on, tried. `kl`: of the whole model from this, mean nats a token."""

    removal: Removal
    cost: float
    kl: float
    taken: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "removal": self.removal._asdict()}


def parameters(c: ModelConfig) -> float:
    return costs(c).parameters


def megabytes(c: ModelConfig, precision: str) -> float:
    """Of the weights, in millions of bytes."""
    return costs(c).weight_bytes[precision] / 1e6


def flops(c: ModelConfig) -> float:
    return costs(c).flops_per_token


def bytes_per_token(c: ModelConfig, precision: str) -> float:
    """What one token reads: each matrix that it is multiplied by, and a full float32 cache.

    Tables in which a token looks up one row are not counted, but a tied one is the head as well.
    """
    read = dataclasses.replace(c, tie_embeddings=True)
    if c.position == "learned":
        read = dataclasses.replace(read, position="none", position_offset=0)
    found = costs(read)
    return found.weight_bytes[precision] + found.cache_bytes["fp32"]


@torch.no_grad()
def choose_removal(
    decoder: Decoder,
    budget: Budget,
    multiple: int,
    ids: torch.Tensor,
    progress: Callable[[str], None] = lambda what: None,
) -> tuple[Removal, list[Trial]]:
    """What to remove to come within the budget, and everything that was tried for it.

    ids int64 [sequences, length]: the first half calibrates the trials, the second says how far
    each is from the whole model. In each round the kinds compete: the one goes on that moves the
    predictions least for what it saves of the budget.
    """
    c, half = decoder.config, len(ids) // 2
    _check_budget(c, budget, multiple)
    removal, cost, kl = Removal(), budget.cost(c), 0.0
    trials: list[Trial] = []
    left = ROUNDS
    while cost > budget.limit:
        aim = cost - (cost - budget.limit) / left
        found = []
        for step in _steps(c, budget, multiple, removal, aim):
            progress(f"tries {_words(step)}")
            made, _ = prune_decoder(decoder, step, ids[:half])
            lost = _divergence(decoder, made, ids[half:])
            found.append(Trial(step, budget.cost(made.config), lost))
        excess = cost - budget.limit  # to save more than that is worth nothing
        best = min(found, key=lambda t: (t.kl - kl) / min(cost - t.cost, excess))
        trials += [trial._replace(taken=trial is best) for trial in found]
        removal, cost, kl = best[:3]
        left = max(1, left - 1)
    return removal, trials


def _check_budget(c: ModelConfig, budget: Budget, multiple: int) -> None:
    most = largest_removal(c, multiple)
    now, least = budget.cost(c), budget.cost(pruned_config(c, most))
    if now <= budget.limit:
        raise EdgeformerError(
            f"the model has {now:,.6g} {budget.unit} already; ask for fewer than that, not "
            f"{budget.limit:,.6g}"
        )
    if least > budget.limit:
        raise EdgeformerError(
            f"{budget.limit:,.6g} {budget.unit} cannot be reached: with all that can go "
            f"({_words(most)}) {least:,.6g} stay; train a smaller model instead"
        )


def _steps(
    c: ModelConfig, budget: Budget, multiple: int, now: Removal, aim: float
) -> list[Removal]:
    """For each kind the fewest parts more that reach the aim; all it has where that is too few."""
    most = largest_removal(c, multiple)
    ways: dict[str, Sequence[int]] = {
        "ff": [c.d_ff - width for width in widths(c.d_ff, multiple)],
        "kv": range(1, most.kv + 1),
        "layers": range(1, most.layers + 1),
    }
    found = []
    for kind, counts in ways.items():
        further = [now._replace(**{kind: n}) for n in counts if n > getattr(now, kind)]
        enough = [step for step in further if budget.cost(pruned_config(c, step)) <= aim]
        found += enough[:1] or further[-1:]
    return found


def _divergence(whole: Decoder, part: Decoder, ids: torch.Tensor) -> float:
    """KL(whole || part), mean nats a token."""
    total = 0.0
    for sequence in ids.split(1):  # logits of one sequence at a time: a vocabulary is large
        theirs, ours = (model(sequence)[0].log_softmax(-1) for model in (whole, part))
        total += float(F.kl_div(ours, theirs, log_target=True, reduction="batchmean"))
    return total / len(ids)


def _words(removal: Removal) -> str:
    return ", ".join(f"{kind}={n}" for kind, n in removal._asdict().items())
