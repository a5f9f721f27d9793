"""The model that ships: small, in half precision, and as good as its README says."""

import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgeformer.nn.checkpoint import load_checkpoint
from edgeformer.nn.evaluate import bits_per_character
from edgeformer.text import load_tokenizer

FOLDER = Path(__file__).parents[2] / "export" / "models" / "nano-austen"


def test_the_checkpoint_takes_at_most_4_mb_and_is_stored_in_half_precision():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 4_000_000
    dtypes = {tensor.dtype for tensor in load_file(FOLDER / "model.safetensors").values()}
    assert dtypes == {torch.float16}


def test_it_needs_as_few_bits_for_the_held_out_sample_as_its_readme_says():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    claim = float(re.search(r"([0-9.]+) bits per character on `held_out.txt`", readme)[1])
    text = (FOLDER / "held_out.txt").read_text(encoding="utf-8")
    assert 20_000 <= len(text) <= 40_000
    tokenizer = load_tokenizer(str(FOLDER / "tokenizer.json"))
    ids = torch.tensor(tokenizer.encode(text))
    decoder = load_checkpoint(FOLDER)
    sequence = decoder.config.max_positions
    bits = bits_per_character(decoder, tokenizer, ids, sequence, sequence // 2)
    assert bits == pytest.approx(claim, abs=0.002)
    assert bits < 2.0
