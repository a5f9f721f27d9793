"""A run that goes on ends in the weights of a run that was never interrupted, bit for bit."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from edgeformer.nn import train
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.data import Windows
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.plan import Plan
from edgeformer.nn.trainer import Run
from tests.nn import training_text

CONFIG = ModelConfig.from_json(training_text.TINY)
PLAN = Plan(
    tokenizer="byte-bpe",
    steps=12,
    batch_size=3,
    sequence=16,
    lr=0.01,
    warmup=3,
    weight_decay=0.1,
    seed=5,
    precision="fp32",
    device="cpu",
    threads=1,
    held_out=0.0,
)


def start(plan: Plan = PLAN) -> Run:
    ids = torch.randint(CONFIG.vocab_size, (400,), generator=torch.Generator().manual_seed(1))
    windows = Windows(ids, plan.sequence, plan.batch_size, plan.seed)
    return Run.start(plan, Decoder(CONFIG), windows)


def weights(run: Run) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in run.decoder.parameters()])


@pytest.mark.parametrize("stop", [0, 1, 7, 12])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_saved_and_restored_anywhere_a_run_ends_in_the_same_bits(tmp_path, stop, precision):
    plan = dataclasses.replace(PLAN, precision=precision)
    whole = start(plan)
    losses = [progress.loss for progress in whole.steps()]
    first = start(plan)
    for progress in first.steps() if stop else ():
        if progress.done == stop:
            break
    first.save(tmp_path / "state", {})
    torch.manual_seed(99)  # whatever happened since
    torch.rand(17)
    second = start(plan)
    second.restore(tmp_path / "state")
    assert second.done == stop
    assert [progress.loss for progress in second.steps()] == losses[stop:]
    assert torch.equal(weights(second), weights(whole))
    assert CONFIG.dropout > 0 and losses[-1] < losses[0]


def test_the_seed_decides_the_weights():
    def end(seed: int) -> torch.Tensor:
        run = start(dataclasses.replace(PLAN, seed=seed, steps=2, warmup=0))
        return [weights(run), *(weights(run) for _ in run.steps())]

    for one, same, other in zip(end(1), end(1), end(2), strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, other)


def test_weight_decay_leaves_norms_alone():
    run = start()
    decays = {
        len(p.shape): group["weight_decay"]
        for group in run.optimizer.param_groups
        for p in group["params"]
    }
    assert decays == {1: 0.0, 2: 0.1}


def test_ctrl_c_saves_and_the_printed_command_goes_on_to_the_same_bits(tmp_path, capsys):
    arguments = [*training_text.write(tmp_path), "--steps", "200", "--checkpoint-every", "0"]
    assert train.main([*arguments, "-o", str(tmp_path / "whole"), "--eval-every", "0"]) == 0

    command = [sys.executable, "-m", "edgeformer.nn.train", *arguments]
    command += ["-o", str(tmp_path / "cut"), "--eval-every", "1"]
    root = Path(__file__).parents[2]
    child = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True)
    with child:
        printed = ""
        while "step 3," not in printed:
            line = child.stderr.readline()
            assert line, printed
            printed += line
        child.send_signal(signal.SIGINT)
        printed += child.stderr.read()
    assert child.returncode == 130, printed
    assert "Traceback" not in printed
    assert 3 <= int(re.search(r"stopped after step (\d+) and saved", printed)[1]) < 200
    assert not (tmp_path / "cut" / "model.safetensors").exists()

    resume = printed.strip().splitlines()[-1].split()
    assert resume[:3] == ["python", "-m", "edgeformer.nn.train"]
    capsys.readouterr()
    assert train.main([*resume[3:], "--eval-every", "0"]) == 0
    assert "steps 0 to" not in capsys.readouterr().err
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut")]
    assert files[0] == files[1]
    assert not (tmp_path / "cut" / "resume.safetensors").exists()


def test_sigterm_stops_like_ctrl_c_and_the_handlers_are_given_back(tmp_path, capsys, monkeypatch):
    arguments = [*training_text.write(tmp_path), "--steps", "6", "-o", str(tmp_path / "out")]
    step = Run._step

    def step_then_signal(run, rate):
        if run.done == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(run, rate)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_step", step_then_signal)
        assert train.main(arguments) == 130
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert train.main([*arguments, "--resume"]) == 0
    assert "steps 2 to 6" in capsys.readouterr().err


@pytest.fixture
def interrupted(tmp_path):
    """Arguments of a run of 6 steps that stopped after its second."""
    arguments = [*training_text.write(tmp_path), "--steps", "6", "-o", str(tmp_path / "out")]
    assert train.main([*arguments, "--stop-after", "2"]) == 0
    return arguments


def test_a_run_may_go_on_to_another_number_of_steps_and_says_so(interrupted, tmp_path, capsys):
    arguments = [*interrupted, "--resume", "--steps", "9"]
    assert train.main([*arguments, "--stop-after", "4"]) == 0
    assert train.main([*interrupted, "--resume", "--steps", "3"]) == 2
    assert "--steps 3: 4 steps are done already" in capsys.readouterr().err
    assert train.main(arguments) == 0
    report = json.loads((tmp_path / "out" / "train.json").read_text())
    assert report["pieces"] == [{"from": 0, "steps": 6}, {"from": 2, "steps": 9}]
    assert report["plan"]["steps"] == report["result"]["step"] == 9
    assert report["plan"]["warmup"] == 0  # a tenth of the 6 steps that the run began with


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--lr", "0.02"], "lr was 0.01 and is now 0.02"),
        (["--dropout", "0"], "model dropout was 0.2 and is now 0"),
        (["--vocab-size", "280"], "model vocab_size was 300 and is now 280"),
        (["--precision", "bf16"], "precision was 'fp32' and is now 'bf16'"),
        (["--threads", "2"], "threads was 1 and is now 2"),
        (["--held-out", "0.3"], "held_out was 0.05 and is now 0.3"),
    ],
)
def test_a_resumed_run_refuses_other_options(interrupted, capsys, change, said):
    assert train.main([*interrupted, "--resume", *change]) == 2
    assert said in capsys.readouterr().err


def test_a_resumed_run_refuses_another_text(interrupted, capsys):
    with open(interrupted[0], "a") as file:
        file.write("One more line.\n")
    assert train.main([*interrupted, "--resume"]) == 2
    assert "text sha256 was" in capsys.readouterr().err


def test_a_damaged_state_is_refused(interrupted, tmp_path, capsys):
    state = tmp_path / "out" / "resume.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    assert train.main([*interrupted, "--resume"]) == 2
    assert "cannot go on from" in capsys.readouterr().err


def test_an_interrupted_run_is_neither_lost_nor_resumed_by_accident(interrupted, capsys):
    assert train.main(interrupted) == 2
    assert "--resume to go on or --force" in capsys.readouterr().err
    assert train.main([*interrupted, "--force"]) == 0
    assert "steps 0 to 6" in capsys.readouterr().err
