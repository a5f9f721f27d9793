"""Measure every shape, on both Pythons, and write docs/families.md and its figures.

    .venv/bin/python -m tests.export.families.make_docs

Some minutes. Run it after adding a family or a shape, or where a figure has changed.
"""

from __future__ import annotations

import json
import platform
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import tokenizers
import torch
import transformers

from edgeformer.export.source import DEFAULT_PROMPT
from tests.export.families.document import document
from tests.export.families.fused import fused_measured, measure_all
from tests.export.families.measure import (
    PYTHON_36,
    ROOT,
    as_json,
    export_shape,
    figures,
    is_tested,
    run_here,
    run_on_36,
)
from tests.export.families.models import (
    UNUSED,
    Dice,
    model_of,
    said,
    tokenizer_name,
    tokenizer_of,
)
from tests.nn.families.shapes import SHAPES

MEASURED = Path(__file__).with_name("measured.json")
PATH = ROOT / "docs" / "families.md"
TRIES, FEW = 400, 24  # models of a shape, and tokens after which one that repeats itself is known


def measured() -> dict[str, Any]:
    return json.loads(MEASURED.read_text("utf-8"))


def dice_of(entry: dict[str, Any]) -> Dice:
    return Dice(*entry["dice"])


def choose(shape: str, known: dict[str, Any]) -> Dice:
    """The first with which greedy tokens can be compared: wide blocks over a narrow table, mostly,
    since a wide table echoes its input."""
    tokenizer = tokenizer_of(tokenizer_name(shape))
    prompt = tokenizer(DEFAULT_PROMPT)["input_ids"]
    tried = [dice_of(known[shape])] if shape in known else []
    for seed in range(TRIES):
        chooser = random.Random(seed)
        # Wider ones make attention look at single tokens, so they come last.
        deviation = chooser.uniform(1, 2 if seed < TRIES // 2 else 7)
        embedding = float(f"{10 ** chooser.uniform(-1.6, 0):.1g}")
        tried.append(Dice(seed, round(deviation, 1), embedding))
    for dice in tried:
        model = model_of(shape, dice, len(tokenizer) + UNUSED)
        if len(set(said(model, prompt, FEW).tokens)) >= FEW // 3 and is_tested(said(model, prompt)):
            return dice
    raise AssertionError(f"{shape} repeats itself, whatever its weights; try others")


def versions() -> dict[str, str]:
    program = "import platform as p, numpy as n, onnxruntime as o; print(p.python_version(), "
    program += "n.__version__, o.__version__)"
    done = subprocess.run([str(PYTHON_36), "-c", program], stdout=subprocess.PIPE, check=True)
    python_36, numpy_36, onnxruntime_36 = done.stdout.decode().split()
    return {
        "Python": platform.python_version(),
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "tokenizers": tokenizers.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
        "Python on 3.6": python_36,
        "numpy on 3.6": numpy_36,
        "onnxruntime on 3.6": onnxruntime_36,
    }


def main() -> int:
    torch.set_num_threads(1)
    known = measured()["shapes"] if MEASURED.exists() else {}
    with tempfile.TemporaryDirectory() as place:
        exported, dice = [], {}
        for shape in SHAPES:
            folder = Path(place) / shape
            folder.mkdir()
            dice[shape] = choose(shape, known)
            exported.append(export_shape(shape, dice[shape], folder))
        ran = zip(exported, run_here(exported), run_on_36(exported, Path(place)), strict=True)
        found = {
            shape: as_json(figures(dice[shape], *each))
            for shape, each in zip(SHAPES, ran, strict=True)
        }
    measure_all(dice)
    write({"versions": versions(), "shapes": found})
    return 0


def write(everything: dict[str, Any]) -> None:
    """A shape a line, so that a change shows which."""
    shapes = [f'"{s}": {json.dumps(each)}' for s, each in everything["shapes"].items()]
    head = f'{{"versions": {json.dumps(everything["versions"])},\n"shapes": {{\n'
    MEASURED.write_text(head + ",\n".join(shapes) + "\n}}\n", "utf-8")
    PATH.write_text(document(everything, fused_measured()), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
