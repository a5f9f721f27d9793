"""From options to a pruned checkpoint: what `python -m edgeformer.nn.prune` does."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export.quality import Quality, compare, torch_logits
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.data import Windows
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.job import Settings
from edgeformer.nn.prune.budget import ROUNDS, Trial, choose_removal
from edgeformer.nn.prune.decoder import prune_decoder
from edgeformer.nn.prune.recovery import distillation
from edgeformer.nn.prune.removal import MULTIPLE, Removal, parse_removal
from edgeformer.nn.prune.result import removed, round_weights, sizes, table, write_result
from edgeformer.nn.prune.task import AMOUNTS, Task, budget_of, prepare
from edgeformer.nn.trainer import Run, make_optimizer, read_notes
from edgeformer.nn.training import (
    INTERRUPTED,
    STATE_FILE,
    check_intervals,
    check_steps,
    compare_identity,
    existing_state,
    keep_training,
    refuse_existing,
    say,
    summary,
)

MOST_LOSS = 0.10
CHOOSING = 32  # windows of the calibration text that the trials of a budget see
DISTILL = 1.0

Notes = dict[str, Any]


def prune(typed: Settings) -> int:
    """Prune and train as the options say; the exit status."""
    folder: Path = typed["output"]
    state_file, settings = folder / STATE_FILE, dict(typed)
    notes: Notes = {"history": [], "seconds": 0.0, "pieces": []}
    resume, force = settings.pop("resume", False), settings.pop("force", False)
    if resume:
        notes = read_notes(existing_state(state_file))
        notes["settings"].pop("stop_after", None)
        settings = {**notes["settings"], **settings}
    else:
        refuse_existing(folder, force)
    check_intervals(settings)
    _check_numbers(settings)
    task = prepare(settings)
    settings.update(threads=task.job.plan.threads, warmup=task.job.plan.warmup)
    torch.set_num_threads(task.job.plan.threads)
    if resume:
        compare_identity(notes["identity"], task.identity())
    decoder = load_decoder(task.source)
    if resume:
        pruned = Decoder(ModelConfig.from_json(notes["config"])).eval()
    else:
        state_file.unlink(missing_ok=True)  # of the run that --force gives up
        pruned = _cut(task, decoder, notes)
    notes["settings"] = {k: str(v) if isinstance(v, Path) else v for k, v in settings.items()}
    notes["identity"] = task.identity()
    if task.job.plan.steps or resume:
        run = _recovery(task, decoder, pruned, state_file if resume else None)
        if not _trained(task, run, settings, notes, state_file):
            say(f"stopped after step {run.done} and saved; to go on:\n  {_resume(settings)}")
            return 0 if run.done == settings.get("stop_after") else INTERRUPTED
        decoder.to("cpu")
        pruned = run.decoder.to("cpu").eval()
        round_weights(pruned, _stored(settings))
        notes["quality"]["recovered"] = vars(_measured(task, decoder, pruned, "recovered"))
    _judge(task, settings, notes, pruned, state_file)
    _write(task, settings, notes, pruned)
    state_file.unlink(missing_ok=True)
    return 0


def _cut(task: Task, decoder: Decoder, notes: Notes) -> Decoder:
    """The pruned decoder; what was done goes into the notes."""
    settings, ids = task.settings, task.calibration
    multiple = settings.get("multiple", MULTIPLE)
    trials: list[Trial] = []
    if "remove" in settings:
        removal = parse_removal(settings["remove"], decoder.config, multiple)
    else:
        budget = budget_of(settings, decoder.config)
        sample = ids[:: max(1, len(ids) // CHOOSING)]
        with tqdm(total=3 * ROUNDS, desc="choosing", disable=None, leave=False) as bar:
            removal, trials = choose_removal(decoder, budget, multiple, sample, _shown(bar))
        notes["budget"] = {"at most": budget.limit, "of": budget.unit}
    layers = decoder.config.n_layers
    with tqdm(total=layers, desc="pruning", disable=None, leave=False) as bar:
        pruned, kept = prune_decoder(decoder, removal, ids, _shown(bar))
    notes["trials"] = [trial.to_json() for trial in trials]
    notes["removed"] = removed(decoder.config, removal, kept)
    notes["config"] = pruned.config.to_json()
    round_weights(pruned, _stored(settings))
    notes["quality"] = {"pruned": vars(_measured(task, decoder, pruned, "pruned"))}
    say(_done(removal, decoder.config, pruned.config))
    return pruned


def _shown(bar: tqdm):
    def progress(what: str) -> None:
        bar.set_postfix_str(what, refresh=False)
        bar.update()

    return progress


def _recovery(task: Task, decoder: Decoder, pruned: Decoder, state: Path | None) -> Run:
    plan = task.job.plan
    windows = Windows(task.job.training_ids, plan.sequence, plan.batch_size, plan.seed)
    objective = distillation(decoder.to(plan.device), task.settings.get("distill", DISTILL))
    pruned.to(plan.device)
    run = Run(plan, pruned, make_optimizer(plan, pruned), windows, objective=objective)
    if state is not None:
        run.restore(state)
        check_steps(run, plan.steps)
    return run


def _trained(task: Task, run: Run, settings: Settings, notes: Notes, state_file: Path) -> bool:
    """False where it was stopped. What was learned is saved either way: the gate may say no."""
    if [piece["steps"] for piece in notes["pieces"][-1:]] != [run.plan.steps]:
        notes["pieces"].append({"from": run.done, "steps": run.plan.steps})
    state_file.parent.mkdir(parents=True, exist_ok=True)
    say(summary(task.job, run))
    if not keep_training(task.job, run, settings, notes, state_file):
        return False
    notes.pop("losses")
    run.save(state_file, {k: json.dumps(v) for k, v in notes.items()})
    return True


def _measured(task: Task, decoder: Decoder, pruned: Decoder, stage: str) -> Quality:
    with tqdm(total=len(task.measured), desc=stage, disable=None, leave=False) as bar:
        logits = torch_logits(decoder), torch_logits(pruned)
        return compare(*logits, task.measured, lambda _: bar.update())


def _judge(task: Task, settings: Settings, notes: Notes, pruned: Decoder, state_file: Path) -> None:
    """Print the table; raise where the loss is above the limit and not allowed."""
    stages = {stage: Quality(**values) for stage, values in notes["quality"].items()}
    print(table(task.job.config, pruned.config, stages), flush=True)
    limit, found = settings.get("max_loss", MOST_LOSS), list(stages.values())[-1]
    notes["limit"] = {"perplexity": limit, "loss allowed": found.loss > limit}
    if found.loss <= limit or settings.get("allow_quality_loss"):
        return
    again = "--steps trains what is left"
    if state_file.exists():
        again = f"its training is saved, and {_resume(settings)} with more --steps goes on"
    raise CheckFailed(
        f"the perplexity is {found.loss:.1%} above that of the unpruned model, and --max-loss "
        f"allows {limit:.1%}: nothing is published. Remove less; {again}; or take it as it is: "
        "--allow-quality-loss"
    )


def _write(task: Task, settings: Settings, notes: Notes, pruned: Decoder) -> None:
    weights, plan = settings.get("weights", "fp32"), task.job.plan
    where = Path(settings["model"])
    record = {
        "model": where.resolve().name if where.exists() else str(settings["model"]),
        "sha256": task.job.facts["unpruned model"]["sha256"],
        "removed": notes["removed"],
        "multiple of d_ff": settings.get("multiple", MULTIPLE),
        "budget": notes.get("budget"),
        "trials": notes["trials"],
        "before": sizes(task.job.config, weights),
        "after": sizes(pruned.config, weights),
        "quality": notes["quality"],
        "limit": notes["limit"],
        "texts": {k: v for k, v in task.job.facts.items() if k != "unpruned model"},
        "calibration tokens": task.calibration.numel(),
        "recovery": None,
    }
    if plan.steps:
        record["recovery"] = {
            "distill": task.settings.get("distill", DISTILL),
            "plan": plan.to_json(),
            "history": notes["history"],
            "pieces": notes["pieces"],
            "seconds": round(notes["seconds"]),
        }
    folder = Path(settings["output"])
    write_result(folder, pruned, task.words, task.source, _stored(settings), record)
    say(f"wrote {folder}")


def _stored(settings: Settings) -> torch.dtype:
    return torch.float16 if settings.get("weights") == "fp16" else torch.float32


def _check_numbers(settings: Settings) -> None:
    if not settings.keys() & set(AMOUNTS):
        raise EdgeformerError(
            "how much is to go? Say --remove ff=0.25 or the like, or a budget: --keep 0.8, "
            "--parameters, --megabytes, --flops or --bytes-per-token"
        )
    if settings.get("multiple", MULTIPLE) < 1:
        raise EdgeformerError(f"--multiple is {settings['multiple']}; it must be at least 1")
    if not 0.0 <= settings.get("distill", DISTILL) <= 1.0:
        raise EdgeformerError(f"--distill is {settings['distill']}; it is a share from 0 to 1")
    if not settings.get("max_loss", MOST_LOSS) >= 0.0:
        raise EdgeformerError(f"--max-loss is {settings['max_loss']}; it must be at least 0")


def _done(removal: Removal, before: ModelConfig, after: ModelConfig) -> str:
    return (
        f"removed ff={removal.ff}, kv={removal.kv}, layers={removal.layers}: d_ff {before.d_ff} to "
        f"{after.d_ff}, KV heads {before.n_kv_heads} to {after.n_kv_heads} (query heads "
        f"{before.n_heads} to {after.n_heads}), layers {before.n_layers} to {after.n_layers}"
    )


def _resume(settings: Settings) -> str:
    model, text, folder = (shlex.quote(str(settings[name])) for name in ("model", "text", "output"))
    return f"python -m edgeformer.nn.prune {model} --text {text} -o {folder} --resume"
