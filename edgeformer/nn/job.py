"""A training job: options, texts, tokenizer, model config and plan, read and checked."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.data import read_text, split_text
from edgeformer.nn.plan import Plan
from edgeformer.nn.presets import PRESETS
from edgeformer.nn.tokenizer_training import make_char_tokenizer, train_byte_bpe
from edgeformer.text import Tokenizer, load_tokenizer

Settings = dict[str, Any]  # options as typed, by argparse's names


@dataclass(frozen=True)
class Job:
    """All that was asked for, read and checked."""

    plan: Plan
    config: ModelConfig
    tokenizer: Tokenizer
    tokenizer_json: str
    training_ids: torch.Tensor  # int64 [n]
    held_out_ids: torch.Tensor
    facts: dict[str, Any]  # about the texts

    def identity(self) -> dict[str, Any]:
        """What must not change when a run goes on; the number of steps may."""
        plan = self.plan.to_json()
        del plan["steps"]
        return {
            **plan,
            **{f"model {name}": value for name, value in self.config.to_json().items()},
            **{f"{name} sha256": part["sha256"] for name, part in self.facts.items()},
            "tokenizer sha256": hashlib.sha256(self.tokenizer_json.encode()).hexdigest(),
        }


def prepare(settings: Settings) -> Job:
    """Read the texts, make the tokenizer, complete the config and the plan."""
    config = _config(settings)
    plan = make_plan(settings, config)
    text, held_out = read_texts(settings, plan)
    if plan.tokenizer == "char":
        # a held-out character that training never saw has an id, and no training
        tokenizer_json = make_char_tokenizer(text + held_out)
    else:
        tokenizer_json = train_byte_bpe(text, settings.get("vocab_size", config.vocab_size))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "tokenizer.json"
        path.write_text(tokenizer_json, encoding="utf-8")
        tokenizer = load_tokenizer(str(path))
    config = dataclasses.replace(config, vocab_size=tokenizer.vocab_size)
    ids = [torch.tensor(tokenizer.encode(part), dtype=torch.int64) for part in (text, held_out)]
    facts = facts_of((text, held_out), ids)
    return Job(plan, config, tokenizer, tokenizer_json, *ids, facts)


def read_texts(settings: Settings, plan: Plan) -> tuple[str, str]:
    """The text to train on, and the held-out one: a file of its own, or the first one's end."""
    text = read_text(Path(settings["text"]))
    if "held_out_file" in settings:
        return text, read_text(Path(settings["held_out_file"]))
    return split_text(text, plan.held_out)


def facts_of(texts: Sequence[str], ids: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Sizes and digests of the text to train on and the held-out text, which may be empty."""
    if texts[1] and len(ids[1]) < 2:
        raise EdgeformerError(
            f"the held-out text has {len(ids[1])} token; hold out more, or nothing: --held-out 0"
        )
    return {
        name: {
            "characters": len(part),
            "tokens": len(part_ids),
            "sha256": hashlib.sha256(part.encode("utf-8")).hexdigest(),
        }
        for name, part, part_ids in zip(("text", "held-out text"), texts, ids, strict=True)
    }


def _config(settings: Settings) -> ModelConfig:
    name = settings.get("preset", "nano-start")
    if "config" in settings:
        path = Path(settings["config"])
        try:
            config = ModelConfig.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise EdgeformerError(f"cannot read the model config `{path}`: {error}") from error
    elif name in PRESETS:
        config = PRESETS[name]
    else:
        raise EdgeformerError(f"there is no preset {name!r}; one of: {', '.join(PRESETS)}")
    if "dropout" in settings:
        config = dataclasses.replace(config, dropout=settings["dropout"])
    return config


def make_plan(settings: Settings, config: ModelConfig) -> Plan:
    """The options, and defaults for those that were not typed."""
    get = settings.get
    device = get("device", "auto")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise EdgeformerError(
            "--device cuda: this PyTorch finds no CUDA device "
            f"(torch {torch.__version__}); give --device cpu, or install a CUDA build"
        )
    # the smallest models count in characters: their vocabulary has no room for all bytes
    few = config.vocab_size <= 256 and "vocab_size" not in settings
    tokenizer = get("tokenizer", "char" if few else "byte-bpe")
    if tokenizer == "char" and "vocab_size" in settings:
        raise EdgeformerError(
            f"--vocab-size {settings['vocab_size']} with --tokenizer char: "
            "the characters of the text are the vocabulary; leave one of them out"
        )
    steps = get("steps", 1000)
    return Plan(
        tokenizer=tokenizer,
        steps=steps,
        batch_size=get("batch_size", 16),
        sequence=get("sequence", config.max_positions),
        lr=get("lr", 1e-3),
        warmup=get("warmup", min(100, steps // 10)),
        weight_decay=get("weight_decay", 0.1),
        seed=get("seed", 0),
        precision=get("precision", "fp32"),
        device=device,
        threads=get("threads", torch.get_num_threads()),
        held_out=0.0 if "held_out_file" in settings else get("held_out", 0.05),
    ).checked(config)
