"""What a pruning starts from: the checkpoint, its tokenizer, the texts and the plan."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.export.quality import WINDOW, windows_of
from edgeformer.export.tokenizer import write_words
from edgeformer.export.words import Words, read_words
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.load import plan_decoder
from edgeformer.nn.job import Job, Settings, facts_of, make_plan, read_texts
from edgeformer.nn.prune.budget import Budget, bytes_per_token, flops, megabytes, parameters
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.source import Source

CALIBRATION = 16384  # tokens
# What decides the cut and the training beside the plan: a run that goes on must not change it.
AMOUNTS = ("remove", "keep", "parameters", "megabytes", "flops", "bytes_per_token")
CUTTING = (*AMOUNTS, "multiple", "capacity", "calibration", "distill")
DEFAULTS = {"steps": 0, "lr": 3e-4, "batch_size": 8}


@dataclass(frozen=True)
class Task:
    """`calibration`: int64 [sequences, length]. `measured`: windows of the held-out text."""

    source: Source
    words: Words
    job: Job  # its config is that of the unpruned model
    calibration: torch.Tensor
    measured: list[list[int]]
    settings: Settings

    def identity(self) -> dict[str, Any]:
        return {**self.job.identity(), **{name: self.settings.get(name) for name in CUTTING}}


def prepare(settings: Settings) -> Task:
    """Everything but the weights, read and checked."""
    source = open_source(settings["model"])
    config = plan_decoder(source).config
    _refuse_same_folder(settings)
    window = min(WINDOW, config.max_positions)
    settings = {"sequence": window, **DEFAULTS, **settings, "tokenizer": "given"}
    plan = make_plan(settings, config)
    words = read_words(source)
    if words is None:
        raise EdgeformerError(f"`{source.where}` has no tokenizer, so that no text can be read")
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = write_words(Path(folder), words, config.vocab_size, compared=False).tokenizer
    texts = read_texts(settings, plan)
    ids = [torch.tensor(tokenizer.encode(text), dtype=torch.int64) for text in texts]
    facts = facts_of(texts, ids)
    facts["unpruned model"] = {"sha256": source.digest()}
    measured = windows_of(ids[1].tolist(), window, settings.get("eval_tokens", 4096))
    if not measured:
        raise EdgeformerError(
            "no text is held out to measure the loss with; give --eval-text FILE, or --held-out "
            "SHARE"
        )
    calibration = _spread(ids[0], window, settings.get("calibration", CALIBRATION))
    job = Job(plan, config, tokenizer, words.tokenizer_json, *ids, facts)
    return Task(source, words, job, calibration, measured, settings)


def budget_of(settings: Settings, c: ModelConfig) -> Budget:
    """The one budget that the options have."""
    precision, capacity = settings.get("weights", "fp32"), settings.get("capacity", c.max_positions)
    if not 1 <= capacity <= c.max_positions:
        raise EdgeformerError(
            f"--capacity is {capacity}; it must be from 1 to max_positions, {c.max_positions}"
        )
    if "keep" in settings:
        if not 0.0 < settings["keep"] < 1.0:
            raise EdgeformerError(
                f"--keep is {settings['keep']}; it is a share above 0 and below 1"
            )
        return Budget("parameters", settings["keep"] * parameters(c), parameters)
    for name in ("megabytes", "flops", "bytes_per_token"):
        if name in settings and not 0 < settings[name] < math.inf:  # NaN is not either
            option = "--" + name.replace("_", "-")
            raise EdgeformerError(f"{option} is {settings[name]}; it must be a number above 0")
    if "parameters" in settings:
        return Budget("parameters", settings["parameters"], parameters)
    if "megabytes" in settings:
        unit = f"MB of {precision} weights"
        return Budget(unit, settings["megabytes"], lambda c: megabytes(c, precision))
    if "flops" in settings:
        unit = f"FLOP a token with {capacity} rows in the cache (predicted)"
        return Budget(unit, settings["flops"], lambda c: flops(_with_rows(c, capacity)))
    unit = f"bytes read a token, {precision} weights and {capacity} rows of cache (predicted)"
    limit = settings["bytes_per_token"]
    return Budget(unit, limit, lambda c: bytes_per_token(_with_rows(c, capacity), precision))


def _with_rows(c: ModelConfig, capacity: int) -> ModelConfig:
    return dataclasses.replace(c, max_positions=capacity)


def _refuse_same_folder(settings: Settings) -> None:
    model, folder = Path(settings["model"]), Path(settings["output"])
    if model.exists() and folder.exists() and model.resolve() == folder.resolve():
        raise EdgeformerError(
            f"`{folder}` holds the model that is to be pruned; write to another folder, since the "
            "pruned one is measured against it"
        )


def _spread(ids: torch.Tensor, length: int, tokens: int) -> torch.Tensor:
    """Windows from all over the text, at even distances; int64 [sequences, length]."""
    count = min(tokens, len(ids)) // length
    if count < 2:
        raise EdgeformerError(
            f"calibration needs at least {2 * length} tokens, two windows of {length}; the text "
            f"has {len(ids)} and --calibration allows {tokens}: give a longer text"
        )
    last = len(ids) - length
    return torch.stack(
        [ids[s : s + length] for s in (i * last // (count - 1) for i in range(count))]
    )
