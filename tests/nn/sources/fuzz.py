"""Damage small checkpoints at random: each must load or be refused in words, and quickly.

`python -m tests.nn.sources.fuzz SECONDS [FIRST_SEED]` runs until the time is over and prints every
seed that ended in anything else. test_fuzz.py replays what was found, and a few hundred more.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from edgeformer.errors import EdgeformerError
from edgeformer.export.tokenizer import write_words
from edgeformer.export.words import read_words
from edgeformer.nn.families.load import load_decoder, plan_decoder
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.inspect import describe
from tests.nn.sources.gguf_models import write_gguf
from tests.nn.text.families import document_of
from tests.nn.text.test_gguf_vocabulary import pieces_metadata
from tests.peak import peak_bytes

SECONDS_EACH = 20
MOST_GROWTH = 1 << 30  # bytes
HEAD = 4096  # of a file: where lengths, offsets and names are
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**64 - 1, 10**30)
VALUES = (None, True, "", "x" * 5000, "../../x", [], {}, [[]] * 9, 1e308, float("nan"), *NUMBERS)


def make_checkpoints(folder: Path) -> None:
    """`hf`: a folder with its index, tokenizer and template; `gguf`: a file with its vocabulary."""
    torch.manual_seed(0)
    metadata = pieces_metadata("bpe")
    config = LlamaConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder / "hf", max_shard_size="60KB")
    settings = {"chat_template": "{{ messages[0].content }}", "eos_token": "<|endoftext|>"}
    (folder / "hf" / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "hf" / "tokenizer.json").write_text(json.dumps(document_of("llama3", 400)))
    (folder / "gguf").mkdir()
    write_gguf(folder / "gguf" / "m.gguf", model, **metadata)


def run(seed: int, checkpoints: Path, place: Path) -> str | None:
    """What went wrong with the damage of this seed, or None."""
    source = random.Random(seed)
    kind = source.choice(("hf", "hf", "gguf"))
    folder = place / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkpoints / kind, folder)
    what = damage(source, source.choice(sorted(folder.iterdir())))
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS_EACH)
    try:
        use(folder, place)
    except EdgeformerError:
        return None
    except Exception as error:  # what is looked for
        return f"{what}: {type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.alarm(0)
    return None


def damage(source: random.Random, path: Path) -> str:
    """Change one file, some of its bytes or, of JSON, some of its values; says how."""
    raw = bytearray(path.read_bytes())
    if path.suffix == ".json" and source.random() < 0.7:
        document = json.loads(raw)
        for _ in range(source.randint(1, 3)):
            _change_value(source, document)
        path.write_text(json.dumps(document))
        return f"values of {path.name}"
    for _ in range(source.choice((1, 1, 2, 8, 64))):
        at = source.randrange(min(len(raw), source.choice((64, HEAD, len(raw)))))
        way = source.randrange(5)
        if way == 0:
            raw[at] ^= 1 << source.randrange(8)
        elif way == 1:
            number = source.choice(NUMBERS) % 2**64
            raw[at : at + 8] = number.to_bytes(8, "little")
        elif way == 2:
            raw[at:at] = bytes(source.randrange(256) for _ in range(source.randint(1, 16)))
        elif way == 3:
            del raw[at : at + source.randint(1, 64)]
        else:
            del raw[source.randrange(len(raw)) :]
        if not raw:
            break
    path.write_bytes(raw)
    return f"bytes of {path.name}"


def _change_value(source: random.Random, value: object) -> None:
    """Walk down to some place in a document and put something else there."""
    while True:
        if isinstance(value, dict) and value:
            key: object = source.choice(sorted(value))
        elif isinstance(value, list) and value:
            key = source.randrange(len(value))
        else:
            return
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and source.random() < 0.8:
            value = inner
            continue
        if isinstance(value, dict) and source.random() < 0.2:
            del value[key]
        else:
            value[key] = copy.deepcopy(source.choice(VALUES))
        return


def use(folder: Path, place: Path) -> None:
    """All that an export does before it traces."""
    found = next(iter(folder.glob("*.gguf")), folder)
    checkpoint = open_source(found)
    describe(checkpoint)
    config = plan_decoder(checkpoint).config
    words = read_words(checkpoint)
    (place / "written").mkdir(exist_ok=True)
    write_words(place / "written", words, config.vocab_size, compared=False)
    load_decoder(checkpoint)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"not done after {SECONDS_EACH} s")


def main(seconds: float, seed: int = 0) -> int:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_checkpoints(place)
        before, end, found, first = peak_bytes(), time.monotonic() + seconds, 0, seed
        while time.monotonic() < end:
            wrong = run(seed, place, place)
            if wrong is not None:
                found += 1
                print(f"{seed}: {wrong}", flush=True)
            seed += 1
        grown = peak_bytes() - before
    print(f"{seed - first} seeds, {found} findings, memory grew by {grown / 1e6:.0f} MB")
    return 1 if found or grown > MOST_GROWTH else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *map(int, sys.argv[2:])))
