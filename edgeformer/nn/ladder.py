"""First steps with a model, one idea each: `python -m edgeformer.nn.ladder forward`.

docs/training.md goes up this ladder; its last rung is `python -m edgeformer.nn.train`.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from edgeformer.errors import CheckFailed, EdgeformerError

if TYPE_CHECKING:
    import torch

    from edgeformer.nn.decoder import Decoder

GOAL, MOST_STEPS = 0.05, 500
# Eight lines with eight first letters: once a line has begun, there is one way to go on.
TOY = """\
a small flame kept the whole house warm
black coffee and a window full of rain
children ran along the harbour wall
down the lane somebody was singing
every evening the lamps came on late
four grey geese flew over the mill
grass grew between the railway lines
her letter arrived a week too late"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.nn.ladder",
        description="First steps with a model. Each prints what happened.",
        allow_abbrev=False,
    )
    parser.add_argument("rung", choices=list(RUNGS), help="what to do")
    parser.add_argument("--preset", default="nano-start", help="model (default: nano-start)")
    options = parser.parse_args(arguments)
    try:
        decoder, batch = toy_model(options.preset)
        RUNGS[options.rung](decoder, batch)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def toy_model(preset: str) -> tuple[Decoder, torch.Tensor]:
    """A decoder over the toy text's characters and its lines, int64 [8, sequence + 1]."""
    import dataclasses

    import torch

    from edgeformer.nn.decoder import Decoder
    from edgeformer.nn.presets import PRESETS

    torch.set_num_threads(1)  # too little work to share
    if preset not in PRESETS:
        raise EdgeformerError(f"there is no preset {preset!r}; one of: {', '.join(PRESETS)}")
    characters = sorted(set(TOY) - {"\n"})
    config = dataclasses.replace(PRESETS[preset], vocab_size=len(characters))
    sequence = min(32, config.max_positions)
    lines = TOY.split("\n")
    ids = [[characters.index(c) for c in line[: sequence + 1]] for line in lines]
    decoder = Decoder(config)
    decoder.reset_parameters(generator=torch.Generator().manual_seed(0))
    return decoder, torch.tensor(ids)


def forward(decoder: Decoder, batch: torch.Tensor) -> None:
    """Token ids in, a score for every possible next token out."""
    ids = batch[:, :-1]  # [B, T]
    logits = decoder(ids)  # [B, T, vocab]
    parameters = sum(p.numel() for p in decoder.parameters())
    print(f"parameters {parameters}")
    print(f"token ids {list(ids.shape)} -> logits {list(logits.shape)}")


def loss(decoder: Decoder, batch: torch.Tensor) -> torch.Tensor:
    """How surprised the model is by the next token, and which way every weight should go."""
    import math

    import torch.nn.functional as F

    logits = decoder(batch[:, :-1])
    value = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    value.backward()
    vocab = decoder.config.vocab_size
    norm = sum(float(p.grad.square().sum()) for p in decoder.parameters()) ** 0.5
    print(f"loss {value.item():.3f}; guessing among {vocab} characters is {math.log(vocab):.3f}")
    print(f"gradient norm {norm:.3f}")
    return value.detach()


def step(decoder: Decoder, batch: torch.Tensor) -> None:
    """Move the weights once, and look at the same text again."""
    import torch

    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
    before = loss(decoder, batch)
    optimizer.step()
    optimizer.zero_grad()
    after = loss(decoder, batch)
    print(f"loss {before:.3f} -> {after:.3f} after one step")


def overfit(decoder: Decoder, batch: torch.Tensor) -> None:
    """Learn eight lines by heart: a model that cannot has a bug."""
    import torch
    import torch.nn.functional as F

    # The first letter is the question, not an answer: it is the input, and never a target.
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=3e-3, weight_decay=0.0)
    for done in range(1, MOST_STEPS + 1):
        logits = decoder(batch[:, :-1])
        value = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        if value.item() < GOAL or done % 20 == 0:
            print(f"step {done}: loss {value.item():.3f}")
        if value.item() < GOAL:
            print(f"overfitted: loss below {GOAL}")
            return
    raise CheckFailed(f"loss {value.item():.3f} after {MOST_STEPS} steps; the goal is {GOAL}")


RUNGS = {"forward": forward, "loss": loss, "step": step, "overfit": overfit}


if __name__ == "__main__":
    sys.exit(main())
