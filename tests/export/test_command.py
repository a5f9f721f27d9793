"""The command line, and what it says of checkpoints that a stranger sent."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import edgeformer
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export import export_decoder
from edgeformer.export.__main__ import main
from edgeformer.manifest import Sampling as Defaults
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.tokenizer_training import make_char_tokenizer
from tests.nn.choices import PLAIN, choice_decoder, random_decoder

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "edgeformer.export"]
CHARACTERS = "".join(map(chr, range(32, 127)))  # with <|endoftext|> the 96 ids of PLAIN


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "models/tiny"
    save_checkpoint(folder, choice_decoder("gqa"), make_char_tokenizer(CHARACTERS))
    return folder


def test_help_comes_at_once_and_imports_nothing_heavy():
    """The quickest of five: what is measured is the program, not its neighbours."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        done = subprocess.run([*PROGRAM, "--help"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.3
    assert b"RECIPE.toml" in done.stdout
    code = (
        "import runpy, sys\n"
        "sys.argv = ['x', '--help']\n"
        "try: runpy.run_module('edgeformer.export', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'numpy', 'onnx', 'onnxruntime', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert done.stdout.splitlines()[-1] == b"[]"


def test_without_torch_it_says_what_to_install(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    environment = dict(os.environ, PYTHONPATH=str(tmp_path))
    done = subprocess.run(
        [*PROGRAM, "--preset", "nano-xs", "-o", str(tmp_path / "b")],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 2
    assert b"needs the package torch" in done.stderr
    assert b'pip install "edgeformer[export]"' in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_recipe_works_from_another_folder_and_its_bundle_moves(checkpoint, tmp_path):
    """In a process of its own: relative paths, exit status, what goes to which stream."""
    recipe = tmp_path / "tiny.toml"
    recipe.write_text(
        'name = "tiny"\ntarget = "cpu"\nlicense = "CC0"\n[model]\ncheckpoint = "models/tiny"\n'
        "[graph]\ncapacity = 60\nchunk = 7\n[sampling]\ntemperature = 0.5\n"
        '[golden]\nprompt = "The cat"\n'
    )
    elsewhere = tmp_path / "else/where"
    elsewhere.mkdir(parents=True)
    done = subprocess.run(
        [*PROGRAM, "../../tiny.toml", "-o", "out/b"],
        cwd=elsewhere,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert b"53 greedy steps" in done.stderr
    assert b"next: python -m edgeformer generate out/b 'The cat'" in done.stderr
    assert b"RANDOM" not in done.stderr
    moved = tmp_path / "moved"
    shutil.move(str(elsewhere / "out/b"), moved)
    shutil.rmtree(checkpoint)
    manifest = json.loads((moved / "manifest.json").read_text())
    assert manifest["source"]["checkpoint"] == "tiny"
    assert len(manifest["source"]["sha256"]) == 64
    assert manifest["source"]["license"] == "CC0"
    assert manifest["sampling"] == Defaults(temperature=0.5)._asdict()
    assert manifest["eos_token_ids"] == [manifest["tokenizer"]["special_tokens"]["<|endoftext|>"]]
    golden = manifest["golden"]
    assert len(set(golden["greedy_ids"])) >= 16
    with edgeformer.load(str(moved)) as model:
        steps = list(model.stream(golden["prompt_ids"], temperature=0.0, max_new_tokens=20))
    assert [step.token for step in steps] == golden["greedy_ids"][: len(steps)]


def test_a_preset_says_that_its_weights_are_random(tmp_path, capsys):
    assert main(["--preset", "nano-start", "-o", str(tmp_path / "b")]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "the weights are RANDOM" in said.err
    assert "24 greedy steps" in said.err
    assert "--ids '7 14 21 28 35 42 49 56'" in said.err
    manifest = json.loads((tmp_path / "b/manifest.json").read_text())
    assert manifest["source"] == {
        "checkpoint": "nano-start, random weights of seed 0",
        "sha256": None,
        "license": None,
    }
    assert len(set(manifest["golden"]["greedy_ids"])) >= 16
    assert main(["--preset", "nano-start", "-o", str(tmp_path / "b")]) == 2
    assert "add --force to replace it" in capsys.readouterr().err
    assert main(["--preset", "nano-start", "-o", str(tmp_path / "b"), "--force"]) == 0


def test_a_golden_run_that_repeats_itself_is_said_aloud(tmp_path, capsys):
    """A freshly initialised tied model echoes one token: right, and worth little as a test."""
    save_checkpoint(tmp_path / "m", Decoder(dataclasses.replace(PLAIN, tie_embeddings=True)))
    assert main(["--model", str(tmp_path / "m"), "-o", str(tmp_path / "b")]) == 0
    said = capsys.readouterr().err
    assert "64 greedy steps, 1 distinct tokens" in said
    assert "warning: 1 distinct tokens in the golden run test little" in said


def test_a_recipe_with_another_seed_gives_other_weights(tmp_path):
    found = set()
    for seed in (0, 1):
        recipe = tmp_path / "r.toml"
        recipe.write_text(f'name = "r"\n[model]\npreset = "nano-xs"\nseed = {seed}\n')
        assert main([str(recipe), "-o", str(tmp_path / str(seed))]) == 0
        found.add((tmp_path / str(seed) / "weights.bin").read_bytes())
    assert len(found) == 2


def test_a_recipe_takes_another_model_in_place_of_its_own(checkpoint, tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        'name = "short"\n[model]\nsource = "nobody/nothing"\n[graph]\ncapacity = 32\n'
    )
    bundle = tmp_path / "b"
    assert main([str(recipe), "--model", str(checkpoint), "-o", str(bundle)]) == 0
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert (manifest["name"], manifest["capacity"]) == ("short", 32)
    assert manifest["source"]["checkpoint"] == "tiny"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-o", "b"],
        ["r.toml"],
        ["r.toml", "--preset", "x", "-o", "b"],
        ["--model", "m", "--preset", "x", "-o", "b"],
        ["r.toml", "--fast"],
    ],
)
def test_a_wrong_command_line_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


def refused(arguments, tmp_path, capsys):
    """What an export says that must leave nothing behind."""
    bundle = tmp_path / "bundle"
    assert main([*arguments, "-o", str(bundle)]) == 2
    assert not bundle.exists()
    assert not list(tmp_path.glob(".bundle*"))
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    return said


def test_unknown_presets_and_folders_are_named(tmp_path, capsys):
    said = refused(["--preset", "nano-startt"], tmp_path, capsys)
    assert "no preset 'nano-startt'; known: nano-xs, " in said
    said = refused(["--model", str(tmp_path / "nowhere")], tmp_path, capsys)
    assert "does not exist" in said
    assert "nowhere" in said


@pytest.mark.parametrize(
    ("section", "parts"),
    [
        ("[graph]\ncapacity = 81", ["capacity is 81", "max_positions, 80"]),
        ("[graph]\ncapacity = 1", ["capacity is 1", "at least 2"]),
        ("[graph]\nchunk = 0", ["chunk is 0"]),
        ("[graph]\ncapacity = 20\nchunk = 21", ["chunk is 21", "the capacity, 20"]),
        ("[graph]\ncapacity = 5\n[golden]\nprompt = 'abcde'", ["has 5 tokens", "1 to 4"]),
        ("[golden]\nprompt = ''", ["has 0 tokens"]),
        ("[golden]\nprompt = 'naïve'", ["character 'ï'"]),
        ("[golden]\nprompt_ids = [1, 96]", ["from 1 to 96", "vocabulary has 96"]),
        ("[golden]\nprompt_ids = [-1]", ["from -1 to -1"]),
    ],
)
def test_a_recipe_that_does_not_fit_its_model_is_refused(
    section, parts, checkpoint, tmp_path, capsys
):
    recipe = tmp_path / "r.toml"
    recipe.write_text(f'name = "r"\n[model]\ncheckpoint = "models/tiny"\n{section}\n')
    said = refused([str(recipe)], tmp_path, capsys)
    for part in parts:
        assert part in said


def test_text_as_prompt_needs_a_tokenizer(checkpoint, tmp_path, capsys):
    (checkpoint / "tokenizer.json").unlink()
    recipe = tmp_path / "r.toml"
    recipe.write_text('name="r"\n[model]\ncheckpoint="models/tiny"\n[golden]\nprompt = "a"\n')
    assert "give prompt_ids" in refused([str(recipe)], tmp_path, capsys)


def spoil(checkpoint, change):
    path = checkpoint / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: t.contiguous() for name, t in tensors.items()}, path)


def poison(value):
    def change(tensors):
        tensors["blocks.0.ff.up.weight"][3, 4] = value

    return change


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (poison(float("nan")), ["blocks.0.ff.up.weight", "NaN"]),
        (poison(float("-inf")), ["blocks.0.ff.up.weight", "infinity"]),
        (lambda t: t.pop("final_norm.weight"), ["lacks 1 tensors", "final_norm.weight"]),
        (lambda t: t.update(extra=torch.ones(2)), ["has 1 tensors that no layer", "extra"]),
        (
            lambda t: t.update({"final_norm.weight": torch.ones(31)}),
            ["final_norm.weight [31]", "[32]"],
        ),
    ],
)
def test_hostile_weights_are_refused(change, parts, checkpoint, tmp_path, capsys):
    spoil(checkpoint, change)
    said = refused(["--model", str(checkpoint)], tmp_path, capsys)
    for part in parts:
        assert part in said


@pytest.mark.parametrize("keep", (0, 4, 100, -1))
def test_truncated_weights_are_refused(keep, checkpoint, tmp_path, capsys):
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert "model.safetensors" in refused(["--model", str(checkpoint)], tmp_path, capsys)


@pytest.mark.parametrize(
    ("file", "text", "part"),
    [
        ("config.json", "{", "config.json"),
        ("config.json", "[" * 100_000, "config.json"),
        ("config.json", '{"vocab_size": 96}', "names no model_type"),
        ("tokenizer.json", "{", "tokenizer.json"),
        ("tokenizer.json", '{"kind": "char"}', "its keys are"),
        ("tokenizer.json", make_char_tokenizer(CHARACTERS + "é"), "has 97 ids"),
    ],
)
def test_hostile_json_is_refused(file, text, part, checkpoint, tmp_path, capsys):
    (checkpoint / file).write_text(text)
    assert part in refused(["--model", str(checkpoint)], tmp_path, capsys)


def test_a_model_that_does_not_compute_numbers_is_a_failed_check(tmp_path):
    decoder = random_decoder(PLAIN)
    with torch.no_grad():
        decoder.blocks[0].ff.up.weight[0, 0] = float("nan")
    with pytest.raises(CheckFailed, match="at step 1 of"):
        export_decoder(decoder, tmp_path / "b", name="b")
    assert os.listdir(tmp_path) == []


def test_a_half_precision_decoder_is_refused(tmp_path):
    with pytest.raises(EdgeformerError, match=r"float16; call decoder\.float\(\)"):
        export_decoder(random_decoder(PLAIN).half(), tmp_path / "b", name="b")
