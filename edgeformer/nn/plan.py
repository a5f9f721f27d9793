"""What decides the weights of a training run, apart from the text and the model. Torch-free."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig


@dataclass(frozen=True)
class Plan:
    """A run with the same plan, model and text ends in the same weights (one machine, one device).

    lr is the peak of the schedule; warmup counts steps. held_out is the share of the text's end
    that is never trained on; it is 0 when the held-out text is a file of its own.
    """

    tokenizer: Literal["byte-bpe", "char", "given"]
    steps: int
    batch_size: int
    sequence: int
    lr: float
    warmup: int
    weight_decay: float
    seed: int
    precision: Literal["fp32", "bf16"]
    device: Literal["cpu", "cuda"]
    threads: int  # of the CPU: more of them add in another order
    held_out: float

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def checked(self, config: ModelConfig) -> Plan:
        """This plan, or an error that says which number cannot be."""
        for name in ("batch_size", "sequence", "lr", "threads"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise EdgeformerError(f"{name} is {value}; it must be above 0")
        for name in ("steps", "warmup", "weight_decay", "seed"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise EdgeformerError(f"{name} is {value}; it must be at least 0")
        if self.warmup > self.steps:
            raise EdgeformerError(
                f"warmup takes {self.warmup} steps, but the run has {self.steps}; "
                "give a smaller --warmup or more --steps"
            )
        if self.seed >= 2**63:
            raise EdgeformerError(f"seed is {self.seed}; it must be below 2**63")
        if not 0.0 <= self.held_out < 1.0:
            raise EdgeformerError(
                f"held_out is {self.held_out}; it is a share of the text: at least 0, below 1"
            )
        if self.sequence > config.max_positions:
            raise EdgeformerError(
                f"sequence {self.sequence} is longer than the model's max_positions "
                f"{config.max_positions}; give --sequence {config.max_positions} or less"
            )
        return self


def learning_rate(plan: Plan, step: int) -> float:
    """Linear warm-up to lr, then half a cosine towards 0; steps count from 0."""
    if step < plan.warmup:
        return plan.lr * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    return plan.lr * 0.5 * (1.0 + math.cos(math.pi * done))
