"""`python -m edgeformer.nn.prune`: what it writes, what it refuses, and how it goes on."""

import json
import os
import signal

import gguf
import pytest
import torch
import transformers
from safetensors.torch import load_file

from edgeformer.export.__main__ import main as export
from edgeformer.export.words import read_words
from edgeformer.nn import train
from edgeformer.nn.checkpoint import load_checkpoint, save_checkpoint
from edgeformer.nn.data import read_text, split_text
from edgeformer.nn.prune.__main__ import main
from edgeformer.nn.prune.recovery import distillation
from edgeformer.nn.prune.result import sizes
from edgeformer.nn.sources import open_source
from edgeformer.nn.trainer import Run, next_token
from edgeformer.text import load_tokenizer
from tests.nn import training_text
from tests.nn.choices import PLAIN, choice_decoder, random_decoder
from tests.nn.sources.gguf_models import write_gguf
from tests.nn.text.test_gguf_vocabulary import pieces_metadata

REMOVE = ["--remove", "ff=8", "--multiple", "8"]
ANYWAY = "--allow-quality-loss"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny model that has learned its text, and that text."""
    folder = tmp_path_factory.mktemp("model")
    arguments = training_text.write(folder, 200, dropout=0.0)
    options = ["--steps", "150", "--eval-every", "0", "--checkpoint-every", "0"]
    assert train.main([*arguments, *options, "-o", str(folder / "out")]) == 0
    return folder / "out", folder / "text.txt"


@pytest.fixture
def command(model, tmp_path):
    """What every run of a test shares; the pruned model goes to tmp_path / "out"."""
    folder, text = model
    arguments = [str(folder), "--text", str(text), "-o", str(tmp_path / "out"), "--threads", "1"]
    return [*arguments, "--eval-every", "0"]


def record(tmp_path):
    return json.loads((tmp_path / "out" / "prune.json").read_text("utf-8"))


def test_the_result_is_an_ordinary_smaller_checkpoint_that_exports(command, tmp_path, capsys):
    amount = ["--remove", "ff=0.3,kv=1,layers=1", "--multiple", "8"]
    assert main([*command, *amount, ANYWAY]) == 0
    captured = capsys.readouterr()
    assert "removed ff=8, kv=1, layers=1" in captured.err
    assert [line.split()[0] for line in captured.out.splitlines()[2:]] == ["unpruned", "pruned"]
    config = load_checkpoint(tmp_path / "out").config
    assert (config.d_ff, config.n_heads, config.n_kv_heads, config.n_layers) == (16, 1, 1, 1)
    found = record(tmp_path)
    assert found["removed"]["ff"]["neurons"] == 8
    assert found["removed"]["layers"]["of"] == 2
    assert len(found["removed"]["kv"]["kept by layer"]) == 1
    size = sum(t.numel() for t in load_file(tmp_path / "out" / "model.safetensors").values())
    assert found["after"]["parameters"] == size < found["before"]["parameters"]
    assert found["recovery"] is None
    bundle = tmp_path / "bundle"
    assert export(["--model", str(tmp_path / "out"), "-o", str(bundle)]) == 0
    assert json.loads((bundle / "manifest.json").read_text())["model"]["d_ff"] == 16


@pytest.mark.parametrize("weights", ["fp32", "fp16"])
def test_the_figures_are_those_of_the_written_model(command, model, tmp_path, weights):
    """Perplexity of windows of 16 tokens, computed here from the two checkpoints."""
    assert main([*command, *REMOVE, ANYWAY, "--eval-tokens", "160", "--weights", weights]) == 0
    text = split_text(read_text(model[1]), 0.05)[1]
    ids = torch.tensor(load_tokenizer(str(model[0] / "tokenizer.json")).encode(text))[:160]
    windows, found = ids.reshape(-1, 16), record(tmp_path)["quality"]["pruned"]
    for folder, key in ((model[0], "reference_perplexity"), (tmp_path / "out", "perplexity")):
        with torch.no_grad():
            logits = load_checkpoint(folder)(windows)[:, :-1]
        nats = torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        assert found[key] == pytest.approx(float(nats.exp()), rel=2e-6)
    assert found["tokens"] == 10 * 15


def test_a_loss_above_the_limit_is_a_failed_check_and_nothing_is_written(command, tmp_path, capsys):
    amount = ["--remove", "layers=1", "--max-loss", "0.01"]
    assert main([*command, *amount]) == 1
    captured = capsys.readouterr()
    assert "above that of the unpruned model, and --max-loss allows 1.0%" in captured.err
    assert "perplexity" in captured.out
    assert not (tmp_path / "out").exists()
    assert main([*command, *amount, ANYWAY]) == 0
    found = record(tmp_path)
    assert found["limit"] == {"perplexity": 0.01, "loss allowed": True}
    quality = found["quality"]["pruned"]
    assert quality["perplexity"] > 1.01 * quality["reference_perplexity"]


def test_training_brings_back_some_of_what_was_lost(command, tmp_path):
    assert main([*command, "--remove", "layers=1", "--steps", "60", "--lr", "0.01", ANYWAY]) == 0
    found = record(tmp_path)
    assert found["quality"]["recovered"]["kl"] < 0.8 * found["quality"]["pruned"]["kl"]
    assert found["recovery"]["plan"]["steps"] == 60
    assert not (tmp_path / "out" / "resume.safetensors").exists()


@pytest.mark.parametrize("stop", ["signal", pytest.param("--stop-after", marks=pytest.mark.slow)])
def test_a_run_that_stops_and_goes_on_ends_in_the_same_bits(
    command, tmp_path, capsys, monkeypatch, stop
):
    out = tmp_path / "out"
    arguments = [*command, *REMOVE, "--steps", "6", ANYWAY]
    assert main(arguments) == 0
    whole = (out / "model.safetensors").read_bytes()
    step = Run._step

    def step_then_signal(run, rate):
        if run.done == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return step(run, rate)

    if stop == "signal":
        with monkeypatch.context() as patch:
            patch.setattr(Run, "_step", step_then_signal)
            assert main([*arguments, "--force"]) == 130
    else:
        assert main([*arguments, "--force", "--stop-after", "4"]) == 0
    printed = capsys.readouterr().err.strip().splitlines()
    assert "stopped after step 4 and saved" in printed[-2]
    again = printed[-1].split()
    assert again[:3] == ["python", "-m", "edgeformer.nn.prune"]
    (out / "model.safetensors").unlink()
    assert main(again[3:]) == 0
    assert (out / "model.safetensors").read_bytes() == whole
    assert record(tmp_path)["removed"]["ff"]["neurons"] == 8


def test_a_missed_limit_keeps_the_training_and_either_way_on_is_open(command, tmp_path, capsys):
    arguments = [*command, "--remove", "layers=1", "--steps", "4", "--max-loss", "0"]
    assert main(arguments) == 1
    assert "its training is saved" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["resume.safetensors"]
    assert main([*arguments, "--resume", "--steps", "6"]) == 1
    assert "steps 4 to 6" in capsys.readouterr().err
    assert main([*arguments[:-2], "--resume", "--steps", "6", ANYWAY]) == 0
    assert record(tmp_path)["recovery"]["pieces"] == [
        {"from": 0, "steps": 4},
        {"from": 4, "steps": 6},
    ]


@pytest.mark.parametrize(
    "change, said",
    [
        (["--remove", "ff=16"], "remove was 'ff=8' and is now 'ff=16'"),
        (["--distill", "0.5"], "distill was None and is now 0.5"),
        (["--lr", "0.5"], "lr was 0.0003 and is now 0.5"),
        (["--held-out", "0.2"], "held_out was 0.05 and is now 0.2"),
    ],
)
def test_a_run_goes_on_with_the_options_that_it_began_with(command, capsys, change, said):
    arguments = [*command, *REMOVE, "--steps", "4"]
    assert main([*arguments, "--stop-after", "1"]) == 0
    assert main([*arguments, "--resume", *change]) == 2
    assert said in capsys.readouterr().err
    assert main(arguments) == 2
    assert "--resume to go on or --force" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option, key",
    [
        ("--keep", "parameters"),
        pytest.param("--megabytes", "fp32 bytes", marks=pytest.mark.slow),
        pytest.param("--flops", "FLOP a token, predicted", marks=pytest.mark.slow),
        pytest.param("--parameters", "parameters", marks=pytest.mark.slow),
        pytest.param("--bytes-per-token", "bytes read a token, predicted", marks=pytest.mark.slow),
    ],
)
def test_a_budget_is_kept_and_what_was_tried_is_written_down(command, model, tmp_path, option, key):
    config = load_checkpoint(model[0]).config
    limit = int(0.9 * sizes(config, "fp32")[key])
    typed = {"--keep": 0.9, "--megabytes": limit / 1e6}.get(option, limit)
    assert main([*command, option, str(typed), "--multiple", "4", ANYWAY]) == 0
    found = record(tmp_path)
    assert found["after"][key] <= limit < found["before"][key]
    assert sum(trial["taken"] for trial in found["trials"]) >= 1
    config = load_checkpoint(tmp_path / "out").config
    (last,) = [trial["removal"] for trial in found["trials"] if trial["taken"]][-1:]
    assert config.d_ff == 24 - last["ff"]


@pytest.mark.parametrize(
    "change, reason",
    [
        ([], "how much is to go?"),
        (["--megabytes", "nan"], "--megabytes is nan; it must be a number above 0"),
        (["--bytes-per-token", "inf"], "--bytes-per-token is inf"),
        (["--keep", "1.5"], "--keep is 1.5; it is a share above 0 and below 1"),
        (["--parameters", "9000000"], "already; ask for fewer"),
        (["--flops", "100", "--capacity", "99"], "--capacity is 99; it must be from 1 to"),
        ([*REMOVE, "--multiple", "0"], "--multiple is 0"),
        ([*REMOVE, "--distill", "2"], "--distill is 2.0; it is a share from 0 to 1"),
        ([*REMOVE, "--max-loss", "nan"], "--max-loss is nan"),
        ([*REMOVE, "--held-out", "0"], "no text is held out"),
        ([*REMOVE, "--eval-tokens", "32"], "predicts 30 tokens, at least 64 are needed"),
        ([*REMOVE, "--calibration", "31"], "calibration needs at least 32 tokens"),
        ([*REMOVE, "--resume"], "there is no interrupted run"),
        ([*REMOVE, "--eval-text", "nowhere.txt"], "cannot read the text"),
    ],
)
def test_what_cannot_be_done_is_said(command, tmp_path, capsys, change, reason):
    assert main([*command, *change]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_model_is_not_overwritten(command, model, capsys):
    command[command.index("-o") + 1] = str(model[0])
    assert main([*command, *REMOVE, "--force"]) == 2
    assert "holds the model that is to be pruned" in capsys.readouterr().err


def test_a_model_without_a_tokenizer_is_refused(command, tmp_path, capsys):
    save_checkpoint(tmp_path / "bare", choice_decoder("gqa"))
    assert main([str(tmp_path / "bare"), *command[1:], *REMOVE]) == 2
    assert "has no tokenizer, so that no text can be read" in capsys.readouterr().err


def test_the_words_of_a_gguf_file_stay_what_they_were(command, tmp_path):
    metadata = pieces_metadata("bpe")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    file = str(tmp_path / "m.gguf")
    metadata["tokenizer.chat_template"] = "{{ messages[0]['content'] }}"
    metadata["tokenizer.ggml.add_bos_token"] = True
    write_gguf(
        file, transformers.LlamaForCausalLM(config), gguf.GGMLQuantizationType.F16, **metadata
    )
    assert main([file, *command[1:], "--remove", "ff=0.5", ANYWAY, "--weights", "fp16"]) == 0
    before, after = (read_words(open_source(where)) for where in (file, tmp_path / "out"))
    assert before.chat_templates and before.named_tokens and before.add_bos
    assert before == after
    assert load_checkpoint(tmp_path / "out").config.d_ff == 32


def test_another_result_leaves_nothing_of_the_one_that_it_replaces(command, tmp_path):
    assert main([*command, *REMOVE, ANYWAY]) == 0
    (tmp_path / "out" / "tokenizer_config.json").write_text('{"add_bos_token": true}')
    assert main([*command, *REMOVE, ANYWAY]) == 2
    assert main([*command, *REMOVE, ANYWAY, "--force"]) == 0
    assert read_words(open_source(tmp_path / "out")).add_bos is None


def test_the_licence_goes_with_the_model_and_a_readme_of_the_users_stays(command, model, tmp_path):
    card = "---\nlicense: apache-2.0\n---\n"
    (model[0] / "README.md").write_text(card)
    assert main([*command, *REMOVE, ANYWAY]) == 0
    assert open_source(tmp_path / "out").license == "apache-2.0"
    (model[0] / "README.md").unlink()
    assert main([*command, *REMOVE, ANYWAY, "--force"]) == 0
    assert open_source(tmp_path / "out").license is None
    (tmp_path / "out" / "README.md").write_text("mine")
    assert main([*command, *REMOVE, ANYWAY, "--force"]) == 0
    assert (tmp_path / "out" / "README.md").read_text() == "mine"


def test_distillation_is_the_divergence_from_the_teacher_and_the_surprise_at_the_text():
    teacher, student = random_decoder(PLAIN, 1), random_decoder(PLAIN, 2)
    ids = torch.randint(96, (2, 9), generator=torch.Generator().manual_seed(0))
    logits = student(ids[:, :-1])
    with torch.no_grad():
        p, q = teacher(ids[:, :-1]).softmax(-1), logits.softmax(-1)
        apart = float((p * (p / q).log()).sum(-1).mean())
        surprise = float(-q.gather(2, ids[:, 1:, None]).log().mean())
    assert next_token(logits, ids).item() == pytest.approx(surprise, rel=1e-4)
    for share in (0.0, 0.3, 1.0):
        wanted = share * apart + (1 - share) * surprise
        assert distillation(teacher, share)(logits, ids).item() == pytest.approx(wanted, rel=1e-4)
    distillation(teacher, 0.5)(logits, ids).backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert student.embedding.weight.grad.abs().max() > 0
