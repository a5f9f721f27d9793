"""From options to a trained checkpoint: what `python -m edgeformer.nn.train` does."""

from __future__ import annotations

import json
import platform
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from edgeformer.errors import EdgeformerError
from edgeformer.nn.checkpoint import WEIGHTS_FILE, save_checkpoint
from edgeformer.nn.data import Windows
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.evaluate import bits_per_character
from edgeformer.nn.job import Job, Settings, prepare
from edgeformer.nn.trainer import Run, read_notes

STATE_FILE, REPORT_FILE = "resume.safetensors", "train.json"
INTERRUPTED = 130
GLANCE = 65536  # held-out tokens that an evaluation during training looks at; the last sees all


def train(typed: Settings) -> int:
    """Train as the options say; the exit status."""
    folder: Path = typed["output"]
    state_file, settings = folder / STATE_FILE, dict(typed)
    notes: dict[str, Any] = {"history": [], "seconds": 0.0, "pieces": []}
    resume, force = settings.pop("resume", False), settings.pop("force", False)
    if resume:
        notes = read_notes(existing_state(state_file))
        notes["settings"].pop("stop_after", None)
        settings = {**notes["settings"], **settings}
    elif not force:
        refuse_existing(folder)
    check_intervals(settings)
    job = prepare(settings)
    # what is a default now stays the same when the run goes on elsewhere, or with other steps
    settings.update(threads=job.plan.threads, warmup=job.plan.warmup)
    torch.set_num_threads(job.plan.threads)
    windows = Windows(job.training_ids, job.plan.sequence, job.plan.batch_size, job.plan.seed)
    run = Run.start(job.plan, Decoder(job.config), windows)
    if resume:
        compare_identity(notes["identity"], job.identity())
        run.restore(state_file)
        check_steps(run, job.plan.steps)
    else:
        state_file.unlink(missing_ok=True)  # of the run that --force gives up
    folder.mkdir(parents=True, exist_ok=True)
    notes["settings"] = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
    notes["identity"] = job.identity()
    if [piece["steps"] for piece in notes["pieces"][-1:]] != [job.plan.steps]:
        notes["pieces"].append({"from": run.done, "steps": job.plan.steps})
    say(summary(job, run))
    if not keep_training(job, run, settings, notes, state_file):
        say(f"stopped after step {run.done} and saved; to go on:\n  {_resume_command(settings)}")
        return 0 if run.done == settings.get("stop_after") else INTERRUPTED
    _finish(job, run, folder, notes)
    state_file.unlink(missing_ok=True)
    return 0


def keep_training(job: Job, run: Run, settings: Settings, notes: dict, state_file: Path) -> bool:
    """Train; False if a signal or --stop-after came first. The state is saved then."""
    evaluate_every = settings.get("eval_every", 200)
    save_every = settings.get("checkpoint_every", 200)
    stop_after = settings.get("stop_after", job.plan.steps)
    earlier, began = notes["seconds"], time.perf_counter()
    bar = tqdm(total=job.plan.steps, initial=run.done, unit="step", disable=None, leave=False)
    losses: list[float] = []  # since the last evaluation
    with bar, Signals() as signals:
        for progress in run.steps():
            losses.append(progress.loss)
            bar.update()
            bar.set_postfix(loss=f"{progress.loss:.3f}", refresh=False)
            last = progress.done == job.plan.steps
            if evaluate_every and progress.done % evaluate_every == 0 and not last:
                line = evaluated(job, run, losses)
                notes["history"].append(line)
                tqdm.write(history_line(line), file=sys.stderr)
                losses = []
            notes["seconds"] = earlier + time.perf_counter() - began
            stop = (signals.asked or progress.done >= stop_after) and not last
            if stop or (save_every and progress.done % save_every == 0):
                run.save(state_file, {k: json.dumps(v) for k, v in notes.items()})
            if stop:
                return False
    notes["losses"] = losses
    return True


def evaluated(job: Job, run: Run, losses: list[float], whole: bool = False) -> dict[str, Any]:
    """A line of the history; without held-out text its bits per character are None."""
    sequence, bits = job.plan.sequence, None
    if len(job.held_out_ids):
        ids, stride = job.held_out_ids, max(1, sequence // 2)
        ids, stride = (ids, stride) if whole else (ids[:GLANCE], sequence)
        bits = bits_per_character(run.decoder, job.tokenizer, ids, sequence, stride)
    loss = sum(losses) / len(losses) if losses else None
    return {"step": run.done, "training_loss": loss, "bits_per_character": bits}


def _finish(job: Job, run: Run, folder: Path, notes: dict[str, Any]) -> None:
    result = evaluated(job, run, notes.pop("losses"), whole=True)
    dtype = torch.float16 if notes["settings"].get("weights") == "fp16" else torch.float32
    save_checkpoint(folder, run.decoder, job.tokenizer_json, dtype)
    report = {
        "plan": job.plan.to_json(),
        "parameters": sum(p.numel() for p in run.decoder.parameters()),
        **job.facts,
        "result": result,
        "history": notes["history"],
        "pieces": notes["pieces"],
        "seconds": round(notes["seconds"]),
        "made by": {
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }
    staged = folder / (REPORT_FILE + ".partial")
    staged.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    staged.replace(folder / REPORT_FILE)
    say(history_line(result) + f"\nwrote {folder}")


class Signals:
    """Ctrl-C or SIGTERM asks for a stop after the step; the second one acts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True
        signal.signal(number, self._before[number])


def existing_state(state_file: Path) -> Path:
    if not state_file.exists():
        raise EdgeformerError(
            f"there is no interrupted run in `{state_file.parent}`: {state_file.name} is missing; "
            "leave --resume out to start one"
        )
    return state_file


def refuse_existing(folder: Path, force: bool = False) -> None:
    """`force`: what lies in the folder may be replaced, but it must be one."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise EdgeformerError(f"`{folder}` is no folder; give another one")
    for name, option in ((STATE_FILE, "--resume to go on or --force"), (WEIGHTS_FILE, "--force")):
        if not force and (folder / name).exists():
            raise EdgeformerError(
                f"`{folder}` already holds {name}; give {option} to replace it, or another folder"
            )


def check_intervals(settings: Settings) -> None:
    for name, least in (("eval_every", 0), ("checkpoint_every", 0), ("stop_after", 1)):
        if settings.get(name, least) < least:
            raise EdgeformerError(f"{name} is {settings[name]}; it must be at least {least}")


def check_steps(run: Run, steps: int) -> None:
    if run.done > steps:
        raise EdgeformerError(
            f"--steps {steps}: {run.done} steps are done already; give more, or start again "
            "with --force"
        )


def compare_identity(saved: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if saved.get(name) != value:
            raise EdgeformerError(
                f"--resume: {name} was {saved.get(name)!r} and is now {value!r}; "
                "give the text and options that the run began with, or start again with --force"
            )


def summary(job: Job, run: Run) -> str:
    text, held_out = job.facts["text"], job.facts["held-out text"]
    parameters = sum(p.numel() for p in run.decoder.parameters())
    return (
        f"{text['characters']} characters, {text['tokens']} tokens to train on, "
        f"{held_out['characters']} characters held out; {parameters} parameters, "
        f"vocabulary {job.config.vocab_size}; steps {run.done} to {job.plan.steps} of "
        f"{job.plan.batch_size} x {job.plan.sequence} tokens on {job.plan.device}"
    )


def history_line(line: dict[str, Any]) -> str:
    parts = [f"step {line['step']}"]
    if line["training_loss"] is not None:
        parts.append(f"training loss {line['training_loss']:.3f}")
    if line["bits_per_character"] is not None:
        parts.append(f"{line['bits_per_character']:.3f} bits per character on held-out text")
    return ", ".join(parts)


def _resume_command(settings: Settings) -> str:
    text, folder = (shlex.quote(str(settings[name])) for name in ("text", "output"))
    return f"python -m edgeformer.nn.train {text} -o {folder} --resume"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
