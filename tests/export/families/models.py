"""Checkpoint folders of tiny random models, each with a tokenizer as its family has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
import torch
import transformers

from edgeformer.export.source import DEFAULT_PROMPT
from tests.nn.families.models import random_model
from tests.nn.families.shapes import SHAPES
from tests.text.family_parts import FAMILIES, document_around
from tests.text.hard_strings import HARD_STRINGS
from tests.text.make_family_golden import golden, model_name

TOLERANCE = 1e-4  # of a logit, in units of max(1, the step's largest |logit|)
CAPACITY, CHUNK, STEPS = 120, 16, 64  # the prompts have about 40 tokens
UNUSED = 6  # ids of the model that its tokenizer does not have
LENGTHS = ("max_position_embeddings", "max_seq_len")  # BLOOM has no such key

# How each family's published checkpoints cut text: names of tests/text/family_parts.py, which
# the shapes of a family take in turn.
TOKENIZERS = {
    "bloom": ("bloom",),
    "falcon": ("falcon",),
    "gemma": ("gemma",),
    "gemma2": ("gemma",),
    "gemma3_text": ("gemma",),
    "gpt2": ("gpt2",),
    "gpt_neo": ("gpt2",),
    "gpt_neox": ("gpt-neox",),
    "granite": ("smollm2",),
    "llama": ("llama2", "llama3", "smollm2"),
    "mistral": ("mistral-v3", "mistral-nemo"),
    "mpt": ("gpt-neox",),
    "olmo2": ("olmo2",),
    "opt": ("gpt2",),
    "phi": ("gpt2",),
    "phi3": ("llama2",),
    "qwen2": ("qwen2",),
    "qwen3": ("qwen2",),
    "smollm3": ("llama3",),
    "stablelm": ("gpt-neox",),
    "starcoder2": ("smollm2",),
}
BEGIN = "<|endoftext|>"
WITH_BEGIN = ("llama2", "llama3", "mistral-v3", "mistral-nemo", "gemma")


class Dice(NamedTuple):
    """Of what a model's numbers are drawn: chosen so that its greedy text does not repeat itself,
    and no token of it wins by little."""

    seed: int
    deviation: float
    embedding: float


# Heads of which the fused operator turns whole 16 numbers, as published models have them: a shape
# of each family that turns, the width that its heads get, and its dice.
WIDE = {
    "llama-mha": (16, Dice(0, 1.8, 0.4)),
    "mistral-window": (16, Dice(0, 1.8, 0.4)),
    "qwen2-windows-tied": (16, Dice(4, 1.2, 0.04)),
    "qwen3-wide-heads": (16, Dice(1, 1.1, 0.6)),
    "gemma-mqa": (16, Dice(0, 1.8, 0.4)),
    "gemma2-window": (16, Dice(15, 2.0, 0.03)),
    "gemma3-two-thetas": (16, Dice(15, 2.0, 0.03)),
    "phi-gqa-norms-tied": (32, Dice(26, 1.7, 0.05)),
    "phi3-window": (16, Dice(2, 2.0, 0.8)),
    "gpt_neox-parallel": (64, Dice(0, 1.8, 0.4)),
    "falcon-7b-style": (16, Dice(7, 1.3, 0.04)),
    "stablelm": (64, Dice(0, 1.8, 0.4)),
    "olmo2": (16, Dice(2, 1.0, 1.0)),
    "granite": (16, Dice(0, 1.8, 0.4)),
    "starcoder2-window": (16, Dice(1, 2.0, 0.05)),
    "smollm3": (16, Dice(0, 1.8, 0.4)),
}


class Said(NamedTuple):
    """What `transformers` says: ids of the prompt, greedy tokens, and the logits behind them."""

    prompt: list[int]
    tokens: list[int]
    logits: np.ndarray  # float32 [STEPS, vocab]


def shapes_of(family: str) -> list[str]:
    return [name for name in SHAPES if SHAPES[name]().model_type == family]


def tokenizer_name(shape: str) -> str:
    family = SHAPES[shape]().model_type
    names = TOKENIZERS[family]
    return names[shapes_of(family).index(shape) % len(names)]


def tokenizer_of(name: str) -> transformers.PreTrainedTokenizerFast:
    kind, parts = FAMILIES[name]
    document = document_around(kind, golden()["models"][model_name(name)], parts)
    (begin,) = (t["id"] for t in document["added_tokens"] if t["content"] == BEGIN)
    if name in WITH_BEGIN:
        document["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [_special(BEGIN), _sequence("A")],
            "pair": [_special(BEGIN), _sequence("A"), _sequence("B")],
            "special_tokens": {BEGIN: {"id": BEGIN, "ids": [begin], "tokens": [BEGIN]}},
        }
    made = tokenizers.Tokenizer.from_str(json.dumps(document))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=BEGIN)


def _special(token: str) -> dict[str, object]:
    return {"SpecialToken": {"id": token, "type_id": 0}}


def _sequence(which: str) -> dict[str, object]:
    return {"Sequence": {"id": which, "type_id": 0}}


def model_of(shape: str, dice: Dice, vocab_size: int, width: int | None = None) -> torch.nn.Module:
    """The shape, its vocabulary and length made large enough for the prompt and STEPS more; with
    heads of `width`."""
    config = SHAPES[shape]()
    config.vocab_size = vocab_size
    for key in LENGTHS:
        if hasattr(config, key):
            setattr(config, key, CAPACITY)
    if width is not None and "head_dim" in vars(config):
        config.head_dim = width
    elif width is not None:
        config.hidden_size = width * config.num_attention_heads
    return random_model(shape, config, *dice)


@torch.no_grad()
def said(model: torch.nn.Module, prompt: list[int], steps: int = STEPS) -> Said:
    """Greedy without a cache, so that nothing but the model itself is compared with."""
    ids, rows = list(prompt), []
    for _ in range(steps):
        rows.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1])
        ids.append(int(rows[-1].argmax()))
    return Said(list(prompt), ids[len(prompt) :], torch.stack(rows).numpy())


def save(
    shape: str, dice: Dice, folder: Path, width: int | None = None
) -> tuple[Said, list[tuple[str, list[int]]]]:
    """A checkpoint folder as `transformers` writes it; what it says there, and ids of texts."""
    tokenizer = tokenizer_of(tokenizer_name(shape))
    model = model_of(shape, dice, len(tokenizer) + UNUSED, width)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = [(t, tokenizer(t, add_special_tokens=False)["input_ids"]) for t in HARD_STRINGS]
    return said(model, tokenizer(DEFAULT_PROMPT)["input_ids"]), texts
