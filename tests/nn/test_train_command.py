"""`python -m edgeformer.nn.train`: what it writes, and what it says to mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from edgeformer.nn import evaluate, train
from edgeformer.nn.checkpoint import load_checkpoint
from edgeformer.text import load_tokenizer
from tests.nn import training_text

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(arguments, checkpoint folder) of a finished run of 60 steps."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = [*training_text.write(folder), "--steps", "60", "--eval-every", "20"]
    arguments += ["--weights", "fp16", "-o", str(folder / "out")]
    assert train.main(arguments) == 0
    return arguments, folder / "out"


def test_a_run_leaves_a_checkpoint_its_tokenizer_and_a_report_and_nothing_else(trained):
    _, folder = trained
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "train.json"}
    decoder = load_checkpoint(folder)
    tokenizer = load_tokenizer(str(folder / "tokenizer.json"))
    assert decoder.config.vocab_size == tokenizer.vocab_size <= 300
    assert tokenizer.special_tokens == {"<|endoftext|>": 0}
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}


def test_all_files_of_a_run_have_the_mode_of_a_file_that_python_opens(trained, tmp_path):
    _, folder = trained
    (tmp_path / "any").touch()
    wanted = (tmp_path / "any").stat().st_mode
    assert {path.name for path in folder.iterdir() if path.stat().st_mode != wanted} == set()


def test_training_learns_and_the_report_says_how_much(trained):
    _, folder = trained
    report = json.loads((folder / "train.json").read_text())
    lines = [*report["history"], report["result"]]
    assert [line["step"] for line in lines] == [20, 40, 60]
    bits = [line["bits_per_character"] for line in lines]
    assert bits[2] < bits[0] < 8
    assert bits[2] < 3
    assert report["text"]["characters"] + report["held-out text"]["characters"] == len(
        training_text.lines(120)
    )
    assert report["parameters"] == sum(p.numel() for p in load_checkpoint(folder).parameters())


def test_evaluate_finds_the_bits_that_training_reported(trained, capsys):
    arguments, folder = trained
    report = json.loads((folder / "train.json").read_text())
    text = Path(arguments[0]).read_text()
    held_out = folder.parent / "held-out.txt"
    held_out.write_text(text[report["text"]["characters"] :])
    assert evaluate.main([str(folder), str(held_out)]) == 0
    bits = float(capsys.readouterr().out.split()[0])
    assert bits == pytest.approx(report["result"]["bits_per_character"], abs=0.002)  # fp16
    assert evaluate.main([str(folder), str(held_out), "--stride", "99"]) == 2
    assert "from 1 to 16" in capsys.readouterr().err


def test_a_held_out_file_replaces_the_share(tmp_path):
    arguments = training_text.write(tmp_path)
    other = tmp_path / "other.txt"
    other.write_text(training_text.lines(20, seed=1))
    arguments += ["--held-out-file", str(other), "--steps", "1", "-o", str(tmp_path / "out")]
    assert train.main(arguments) == 0
    report = json.loads((tmp_path / "out" / "train.json").read_text())
    assert report["text"]["characters"] == len(training_text.lines(120))
    assert report["held-out text"]["characters"] == len(other.read_text())


def test_nothing_held_out_is_nothing_measured(tmp_path):
    arguments = [*training_text.write(tmp_path), "--held-out", "0", "--steps", "1"]
    assert train.main([*arguments, "-o", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out" / "train.json").read_text())
    assert report["result"]["bits_per_character"] is None


def test_a_character_model_has_one_id_a_character(tmp_path):
    arguments = [*training_text.write(tmp_path), "--tokenizer", "char", "--steps", "2"]
    assert train.main([*arguments, "-o", str(tmp_path / "out")]) == 0
    tokenizer = load_tokenizer(str(tmp_path / "out" / "tokenizer.json"))
    assert tokenizer.kind == "char"
    text = training_text.lines(120)
    assert tokenizer.vocab_size == len(set(text)) + 1
    assert len(tokenizer.encode(text)) == len(text)


def test_the_smallest_presets_count_in_characters_unless_told_otherwise(tmp_path):
    text = training_text.write(tmp_path)[0]
    for name, change in (("char", []), ("byte-bpe", ["--vocab-size", "270"])):
        arguments = [text, "--steps", "1", "--threads", "1", "-o", str(tmp_path / name), *change]
        assert train.main(arguments) == 0
        assert load_tokenizer(str(tmp_path / name / "tokenizer.json")).kind == name
        assert load_checkpoint(tmp_path / name).config.d_model == 128  # nano-start


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--preset", "nano-huge"], "no preset 'nano-huge'"),
        (["--steps", "-1"], "steps is -1"),
        (["--steps", "5", "--warmup", "6"], "warmup takes 6 steps, but the run has 5"),
        (["--sequence", "17"], "sequence 17 is longer than the model's max_positions 16"),
        (["--batch-size", "0"], "batch_size is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--lr", "nan"], "lr is nan"),
        (["--dropout", "1"], "dropout is 1"),
        (["--held-out", "1"], "held_out is 1"),
        (["--held-out", "0.999"], "tokens to train on, but a sequence of 16 needs 17"),
        (["--held-out-file", "absent.txt"], "cannot read the text"),
        (["--vocab-size", "20"], "vocab_size is 20"),
        (["--tokenizer", "char", "--vocab-size", "80"], "--tokenizer char"),
        (["--eval-every", "-5"], "eval_every is -5"),
        (["--stop-after", "0"], "stop_after is 0"),
        (["--resume"], "no interrupted run"),
    ],
)
def test_mistakes_are_named_with_their_numbers(tmp_path, capsys, change, said):
    arguments = training_text.write(tmp_path)
    if change[0] == "--preset":
        del arguments[1:3]
    assert train.main([*arguments, "-o", str(tmp_path / "out"), *change]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x02\x00\x01", "is a binary file: byte 0 at offset 5"),
        (b"caf\xe9 au lait", "is not UTF-8: byte 0xe9 at offset 3"),
        (b"too short", "tokens to train on, but a sequence of 16 needs 17"),
        (None, "cannot read the text"),
    ],
)
def test_a_text_that_cannot_be_learned_is_refused(tmp_path, capsys, content, said):
    arguments = training_text.write(tmp_path)
    Path(arguments[0]).unlink() if content is None else Path(arguments[0]).write_bytes(content)
    assert train.main([*arguments, "-o", str(tmp_path / "out"), "--held-out", "0"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", '{"d_model": 16}', '{"colour": 1}', "[]"])
def test_a_broken_model_config_is_refused(tmp_path, capsys, content):
    arguments = training_text.write(tmp_path)
    (tmp_path / "model.json").write_text(content)
    assert train.main([*arguments, "-o", str(tmp_path / "out")]) == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_is_not_replaced_silently(tmp_path, capsys):
    arguments = [*training_text.write(tmp_path), "-o", str(tmp_path / "out")]
    assert train.main([*arguments, "--device", "cuda"]) == 2
    assert "finds no CUDA device" in capsys.readouterr().err


def test_a_finished_checkpoint_is_not_overwritten_without_force(trained, capsys):
    arguments, folder = trained
    before = (folder / "model.safetensors").read_bytes()
    assert train.main(arguments) == 2
    assert "give --force" in capsys.readouterr().err
    assert train.main([*arguments, "--resume"]) == 2
    assert (folder / "model.safetensors").read_bytes() == before


def test_help_does_not_wait_for_torch():
    code = (
        "import sys, edgeformer.nn.train as t, edgeformer.nn.evaluate, edgeformer.nn.ladder;"
        "t.parser().format_help(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
