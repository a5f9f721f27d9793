"""`quality`: figures of real graphs, and words for whoever asks for what there is not."""

import json
import re

import gguf
import pytest
import torch
import transformers

from edgeformer.export.__main__ import main
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.tokenizer_training import make_char_tokenizer
from tests.nn.choices import choice_decoder
from tests.nn.sources.gguf_models import write_gguf
from tests.nn.text.test_gguf_vocabulary import pieces_metadata

CHARACTERS = "".join(map(chr, range(32, 127)))
TEXT = "It is a truth universally acknowledged, that a single man in possession of a fortune. " * 9


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "tiny"
    save_checkpoint(folder, choice_decoder("gqa"), make_char_tokenizer(CHARACTERS))
    (tmp_path / "text.txt").write_text(TEXT)
    text = str(tmp_path / "text.txt")  # calibration reads what lies behind the measured part
    return [str(folder), "--eval-text", text, "--calibration-text", text, "--tokens", "240"]


def test_fewer_bits_are_fewer_bytes_and_a_larger_divergence(checkpoint, capsys):
    assert main(["quality", *checkpoint, "--forms", "fp32,n8-b16,n4-b16", "--json"]) == 0
    fp32, n8, n4 = json.loads(capsys.readouterr().out)
    assert fp32["bytes"] > n8["bytes"] > n4["bytes"]
    assert fp32["kl"] < 1e-6 < n8["kl"] < n4["kl"]
    assert fp32["top1"] == 1.0
    assert fp32["tokens"] == n4["tokens"] == 240 - 3  # three windows of 80


def test_the_table_has_a_line_for_each_form(checkpoint, capsys):
    assert main(["quality", *checkpoint, "--forms", "n4-b32-zero-nearest,n8-nearest"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "perplexity" in said[0]
    assert [line.split()[0] for line in said[2:]] == ["n4-b32-zero-nearest", "n8-nearest"]


def test_int8_for_tensorrt_is_measured_with_any_calibrator(checkpoint, capsys):
    forms = ["int8-qdq", "int8-qdq-max", "int8-qdq-percentile"]
    assert main(["quality", *checkpoint, "--forms", ",".join(["fp32", *forms]), "--json"]) == 0
    fp32, default, most, cut = json.loads(capsys.readouterr().out)
    assert default == {**most, "form": "int8-qdq"}
    assert fp32["kl"] < 1e-6 < most["kl"] < 0.5
    assert most["kl"] != cut["kl"]
    assert most["bytes"] < fp32["bytes"]


def test_stored_blocks_lose_no_more_than_those_rounded_again(tmp_path, capsys):
    metadata = pieces_metadata("bpe")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    model, file = transformers.LlamaForCausalLM(config), str(tmp_path / "m.gguf")
    write_gguf(file, model, gguf.GGMLQuantizationType.Q8_0, **metadata)
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    forms = ["--forms", "stored,n8-nearest", "--eval-text", str(text), "--tokens", "128"]
    assert main(["quality", file, *forms, "--json"]) == 0
    stored, again = json.loads(capsys.readouterr().out)
    assert stored["bytes"] == again["bytes"]
    assert stored["kl"] <= again["kl"]


@pytest.mark.parametrize(
    "change, reason",
    [
        (["--forms", "n5"], "--forms has 'n5'"),
        (["--forms", "n4-b20"], "bits must be 4 or 8"),
        (["--forms", "stored"], "stores no matrix as Q8_0"),
        (["--forms", "int8-qdq-mode"], "--forms has 'int8-qdq-mode'"),
        (["--eval-text", "nowhere.txt"], "cannot read the text"),
        (["--tokens", "40"], "40 tokens to measure on, at least 64"),
        (["--tokens", "-5"], "-5 tokens to measure on"),
        (["--tokens", "100000"], "tokens of text to calibrate with, at least 80"),
    ],
)
def test_what_cannot_be_measured_is_said(change, reason, checkpoint, capsys):
    assert main(["quality", *checkpoint, "--forms", "n4", *change]) == 2
    assert reason in capsys.readouterr().err


def test_int8_calibrated_with_another_language_is_measured_like_any_other(checkpoint, tmp_path):
    text = tmp_path / "text.txt"
    german = "Es ist eine allgemein anerkannte Wahrheit, dass ein Junggeselle. "
    text.write_text(TEXT[:240] + german * 9)
    assert main(["quality", *checkpoint, "--forms", "int8-qdq"]) == 0


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"", "is empty"),
        (b"one", "tokens of text to calibrate with, at least 80"),
        (bytes(range(256)) * 40, "is a binary file"),
    ],
)
def test_texts_that_say_nothing_are_refused(content, reason, checkpoint, tmp_path, capsys):
    (tmp_path / "text.txt").write_bytes(content)
    assert main(["quality", *checkpoint, "--forms", "int8-qdq"]) == 2
    assert re.search(reason, capsys.readouterr().err)
