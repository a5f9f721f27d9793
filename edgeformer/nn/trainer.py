"""The training loop, and the state that an interrupted run goes on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from safetensors import SafetensorError, safe_open

from edgeformer.errors import EdgeformerError
from edgeformer.nn.checkpoint import save_tensors
from edgeformer.nn.data import Windows, mixed
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.plan import Plan, learning_rate

# Of logits [B, T, vocab] and ids [B, T + 1], whose first T gave them: a mean over tokens.
Objective = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

CLIP = 1.0  # largest norm of all gradients together
BETAS = (0.9, 0.95)
MOMENTS = ("exp_avg", "exp_avg_sq")


def next_token(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """How surprising the next token was, in nats."""
    return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


class Progress(NamedTuple):
    """After a step: steps done, its objective (nats a token), its learning rate."""

    done: int
    loss: float
    learning_rate: float


@dataclass
class Run:
    """A decoder, its optimizer and how many steps are done.

    All chance in a step, its windows and its dropout, is drawn from (seed, step), so a run that
    goes on from a saved state needs no generator's state to end in the same weights.
    """

    plan: Plan
    decoder: Decoder
    optimizer: torch.optim.AdamW
    windows: Windows
    done: int = 0
    objective: Objective = next_token

    @classmethod
    def start(cls, plan: Plan, decoder: Decoder, windows: Windows) -> Run:
        """A new run from random weights that the seed decides."""
        generator = torch.Generator().manual_seed(mixed(plan.seed, 1))
        decoder.reset_parameters(generator=generator)
        decoder.to(plan.device)
        return cls(plan, decoder, make_optimizer(plan, decoder), windows)

    def steps(self) -> Iterator[Progress]:
        """Train to the end of the plan. The run may be saved between two steps."""
        while self.done < self.plan.steps:
            rate = learning_rate(self.plan, self.done)
            loss = self._step(rate)
            self.done += 1
            yield Progress(self.done, loss, rate)

    def _step(self, rate: float) -> float:
        plan = self.plan
        torch.manual_seed(mixed(plan.seed, 2 * self.done + 3))  # dropout
        batch = self.windows.batch(self.done).to(plan.device)  # [B, sequence + 1]
        self.decoder.train()
        half = plan.precision == "bf16"
        with torch.autocast(plan.device, torch.bfloat16, enabled=half):
            logits = self.decoder(batch[:, :-1])  # [B, sequence, vocab]
        loss = self.objective(logits, batch)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.decoder.parameters(), CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        value = loss.item()
        if value != value:
            raise EdgeformerError(
                f"the loss is not a number after step {self.done}, learning rate {rate:.2g}; "
                "start again with a smaller --lr or a longer --warmup"
            )
        return value

    def save(self, path: Path, notes: dict[str, str]) -> None:
        """Write everything that the next steps need; the file appears whole or not at all."""
        tensors = {}
        for name, parameter in self.decoder.named_parameters():
            tensors[f"weight.{name}"] = parameter.detach()
            for moment in MOMENTS if self.done else ():
                tensors[f"{moment}.{name}"] = self.optimizer.state[parameter][moment]
        tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        save_tensors(tensors, path, {**notes, "done": str(self.done)})

    def restore(self, path: Path) -> None:
        """Go on from a file that `save` wrote for the same model."""
        with _opened(path) as file:
            self.done = int(file.metadata()["done"])
            with torch.no_grad():
                for name, parameter in self.decoder.named_parameters():
                    parameter.copy_(file.get_tensor(f"weight.{name}"))
                    if self.done:
                        state = {m: file.get_tensor(f"{m}.{name}") for m in MOMENTS}
                        state = {m: tensor.to(parameter.device) for m, tensor in state.items()}
                        step = torch.tensor(float(self.done), device=parameter.device)
                        self.optimizer.state[parameter] = {"step": step, **state}


def make_optimizer(plan: Plan, decoder: Decoder) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices and tables, not on norms and biases."""
    parameters = list(decoder.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": plan.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=plan.lr, betas=BETAS, fused=True)


def read_notes(path: Path) -> dict[str, Any]:
    """What `save` was given, each value read as JSON."""
    with _opened(path) as file:
        return {key: json.loads(value) for key, value in file.metadata().items()}


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise EdgeformerError(
            f"cannot go on from `{path}`: {error}; start again with --force"
        ) from error
