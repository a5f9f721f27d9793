"""Export checkpoint folders and measure what the bundles say, on this Python and on 3.6."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from edgeformer.bundle import Bundle
from edgeformer.export.__main__ import main as export
from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import read_model
from edgeformer.export.operators import check_operators
from edgeformer.export.source import DEFAULT_PROMPT
from edgeformer.targets import parser_of_target, target_named
from tests.export.families.models import CAPACITY, CHUNK, TOLERANCE, Dice, Said, save
from tests.follow import follow

ROOT = Path(__file__).resolve().parents[3]
PYTHON_36 = ROOT / ".venv36" / "bin" / "python"
TARGET = "jetson-nano"


@dataclass(frozen=True)
class Ran:
    """What one Python said of a bundle."""

    error: float  # of a logit at any step, in units of max(1, the step's largest |logit|)
    tokens: list[int]
    prompt: list[int]
    wrong_texts: list[str]


@dataclass(frozen=True)
class Exported:
    """One shape's bundle, and what `transformers` said of its checkpoint."""

    bundle: Bundle
    said: Said
    findings: list[str]
    job: dict[str, object]


def export_shape(shape: str, dice: Dice, folder: Path) -> Exported:
    """By the command that a person would type."""
    source, target = folder / "source", folder / shape
    expected, texts = save(shape, dice, source)
    words = ["--model", source, "-o", target, "--capacity", CAPACITY, "--chunk", CHUNK]
    if export([str(word) for word in words]) != 0:
        raise AssertionError(f"{shape} was not exported; the reason stands above")
    np.save(folder / "logits.npy", expected.logits)
    job = {
        "bundle": str(target),
        "text": DEFAULT_PROMPT,
        "prompt": expected.prompt,
        "tokens": expected.tokens,
        "logits": str(folder / "logits.npy"),
        "texts": texts,
    }
    return Exported(Bundle.open(str(target)), expected, lint(target), job)


def lint(bundle: Path) -> list[str]:
    """Whatever the lint for the Nano or our own list of operators has against the graphs."""
    target, _ = target_named(TARGET)
    found = []
    for kind in ("prefill", "decode"):
        path = bundle / f"{kind}.onnx"
        findings = lint_model(read_model(path), parser_of_target(target), target=target)
        found += [finding.text() for finding in findings if finding.severity == ERROR]
        model = onnx.load(path, load_external_data=False)
        found += [finding.text() for finding in check_operators(model)]
    return found


def run_here(exported: list[Exported]) -> list[Ran]:
    return [Ran(**follow(each.job)) for each in exported]


def run_on_36(exported: list[Exported], folder: Path) -> list[Ran]:
    """All of them in one process."""
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps([each.job for each in exported]), encoding="utf-8")
    command = [str(PYTHON_36), "-m", "tests.follow", str(jobs)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return [Ran(**json.loads(line)) for line in done.stdout.splitlines()]


def margin(said: Said) -> float:
    """How far the best token leads at the closest step, in the units of an error."""
    second, first = np.sort(said.logits, axis=1)[:, -2:].T  # [steps]
    return float(((first - second) / np.maximum(1, np.abs(said.logits).max(axis=1))).min())


@dataclass(frozen=True)
class Figures:
    """What the table says of one shape."""

    dice: Dice
    error: float  # the larger of both Pythons
    distinct: int
    equal: int  # greedy tokens from the first on, 3.11
    equal_36: int
    texts: int  # encoded as `transformers` does, on both Pythons
    texts_tried: int
    findings: int


def figures(dice: Dice, exported: Exported, here: Ran, there: Ran) -> Figures:
    wrong = set(here.wrong_texts) | set(there.wrong_texts)
    tried = len(exported.job["texts"]) + 1
    right = tried - len(wrong)
    right -= any(ran.prompt != exported.said.prompt for ran in (here, there))
    return Figures(
        dice,
        max(here.error, there.error),
        len(set(exported.said.tokens)),
        *(_equal(ran.tokens, exported.said.tokens) for ran in (here, there)),
        right,
        tried,
        len(exported.findings),
    )


def _equal(found: list[int], wanted: list[int]) -> int:
    return next((i for i, pair in enumerate(zip(found, wanted)) if pair[0] != pair[1]), len(found))


def is_tested(said: Said) -> bool:
    """Whether tokens can be compared: not all the same, and none wins by less than 10 errors."""
    return len(set(said.tokens)) >= 16 and margin(said) > 10 * TOLERANCE


def as_json(found: Figures) -> dict[str, object]:
    return dataclasses.asdict(found) | {"dice": list(found.dice)}
