"""`python -m edgeformer.export precisions MODEL`: what each precision costs and gives, in a table.

Every precision is exported as a user would export it, quality included; the bundles that run on a
CPU are then timed here, in alternating rounds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from tqdm import tqdm

from edgeformer.backends import Backend, open_backend
from edgeformer.backends.threads import default_threads
from edgeformer.bundle import Bundle
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export.build import export_recipe
from edgeformer.export.precisions import PRECISIONS
from edgeformer.export.recipe import Recipe, read_recipe, source_recipe
from edgeformer.manifest import Manifest
from edgeformer.manifest_quality import Quality
from edgeformer.targets import processor

WIDENED = "fp16"  # onnxruntime computes it in FP32: its speed there says nothing
NEW_TOKENS, ROUNDS = 64, 5
LEAST_ROOM = 0.02  # above and below the points of a plot, as a share of float32's perplexity
HEAD = (
    f"{'precision':<13} {'MB':>8} {'perplexity':>11} {'change':>8} {'KL, nats':>9} {'top-1':>7} "
    f"{'pinned':>6} {'tokens/s':>9} {'range':>15} {'to fp32':>8}"
)


@dataclass(frozen=True)
class Row:
    """One precision. None: not measured. `rates` are tokens a second, one of each round."""

    precision: str
    bytes: int
    perplexity: float | None
    kl: float | None
    top1: float | None
    within: bool  # its thresholds
    pinned: tuple[str, ...]
    rates: tuple[float, ...] = ()

    @property
    def rate(self) -> float | None:
        return statistics.median(self.rates) if self.rates else None


def main(words: Sequence[str]) -> int:
    args = _parser().parse_args(words)
    names = _names(args.precisions)
    if args.plot is not None:
        _check_plot(args.plot)
    recipe = _recipe(args)
    with tempfile.TemporaryDirectory() as made:
        folder = made if args.output is None else args.output
        refused: dict[str, str] = {}
        bundles = {}
        for name in names:
            try:
                bundles[name] = _exported(recipe, name, Path(folder), args.force)
            except CheckFailed as error:
                refused[name] = str(error)
        if not bundles:
            raise CheckFailed("; ".join(f"{name}: {why}" for name, why in refused.items()))
        timed = {n: b for n, b in bundles.items() if n != WIDENED}
        threads = default_threads() if args.threads is None else args.threads
        rates = _rates(timed, threads, args.rounds, args.new_tokens)
    manifests = {name: bundle.manifest for name, bundle in bundles.items()}
    tables = [manifest.quality for manifest in manifests.values() if manifest.quality is not None]
    table = tables[0] if tables else None
    rows = [_row(name, m, table, rates.get(name, ())) for name, m in manifests.items()]
    conditions = _conditions(args, threads, next(iter(manifests.values())), table)
    if args.json:
        found = [{**dataclasses.asdict(row), "rate": row.rate} for row in rows]
        report = {"conditions": conditions, "precisions": found, "refused": refused}
        print(json.dumps(report), flush=True)
    else:
        said = [f"{name:<13} refused: {why}" for name, why in refused.items()]
        print("\n".join([*_text(rows, conditions), *said]), flush=True)
    if args.plot is not None:
        plot(rows, recipe.name, args.plot)
        print(f"wrote {args.plot}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m edgeformer.export precisions",
        description="Export a model in every precision, measure each against PyTorch in float32 "
        "on held-out text, and time those that run on a CPU here, in alternating rounds.",
        epilog="tokens/s are medians of the rounds, one token at a time behind the golden prompt; "
        "fp16 is not timed, since onnxruntime computes it in FP32, and int8-qdq is made for "
        "TensorRT. Compare inside one table only.",
    )
    add = made.add_argument
    add("model", metavar="MODEL", help="RECIPE.toml, or what --model takes: folder, GGUF, hub id")
    add("--precisions", default=",".join(PRECISIONS), metavar="P,P", help="(default: %(default)s)")
    add("--plot", type=Path, metavar="FILE", help="size against perplexity: .png, .svg or .pdf")
    add("-o", "--output", metavar="FOLDER", help="keep the bundles (for a CPU) in FOLDER")
    add("--force", action="store_true", help="replace bundles that exist in FOLDER")
    add("--eval-text", metavar="FILE", help="what is measured on (default: the shipped sample)")
    add("--calibration-text", metavar="FILE", help="what is calibrated with (same default)")
    add("--tokens", type=int, metavar="N", help="that are measured (default: the recipe's)")
    add("--capacity", type=int, metavar="N", help="rows of the cache (default: the recipe's)")
    add("--threads", type=int, metavar="N", help="of the CPU (default: the fast cores)")
    add("--rounds", type=int, default=ROUNDS, metavar="N", help="(default: %(default)s)")
    add("--new-tokens", type=int, default=NEW_TOKENS, metavar="N", help="(default: %(default)s)")
    add("--json", action="store_true", help="one JSON document on stdout")
    return made


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in PRECISIONS:
            raise EdgeformerError(f"--precisions has {name[:40]!r}; known: {', '.join(PRECISIONS)}")
    return names


def _recipe(args: argparse.Namespace) -> Recipe:
    for option in ("rounds", "new_tokens", "threads"):
        if getattr(args, option) is not None and getattr(args, option) < 1:
            raise EdgeformerError(f"--{option.replace('_', '-')} must be at least 1")
    recipe = read_recipe(args.model) if args.model.endswith(".toml") else source_recipe(args.model)
    texts = {"text": args.eval_text, "calibration": args.calibration_text, "tokens": args.tokens}
    texts = {key: value for key, value in texts.items() if value is not None}
    if args.capacity is not None:
        graph = dataclasses.replace(recipe.graph, capacity=args.capacity)
        recipe = dataclasses.replace(recipe, graph=graph)
    return dataclasses.replace(recipe, quality=dataclasses.replace(recipe.quality, **texts))


def _exported(recipe: Recipe, name: str, folder: Path, force: bool) -> Bundle:
    """A bundle of this precision, for the CPU that times it where there is such a one."""
    known = PRECISIONS[name].targets
    target = "cpu" if "cpu" in known else known[0]
    embedding = "graph" if PRECISIONS[name].quantize is not None else recipe.embedding
    form = {"precision": name, "target": target, "embedding": embedding}
    wanted = dataclasses.replace(recipe, **form, block=recipe.block if name == "n8" else None)
    path = folder / f"{recipe.name}-{name}"
    shown = sys.stderr.isatty()
    print(f"exporting {name} ...", file=sys.stderr, flush=True)
    export_recipe(wanted, path, allow_quality_loss=True, force=force, progress=shown)
    return Bundle.open(str(path))


def _row(name: str, manifest: Manifest, table: Quality | None, rates: Sequence[float]) -> Row:
    """`table`: of any of the bundles, they were all measured on the same text."""
    size = sum(entry.bytes for entry in manifest.files.values())
    pinned = tuple(pin.module for pin in manifest.pinned) if name != "fp32" else ()
    own = manifest.quality
    measured = None if own is None else own.precisions.get(name)
    if measured is None:
        reference = None if table is None else table.perplexity
        return Row(name, size, reference, None, None, True, pinned, tuple(rates))
    figures = measured.perplexity, measured.kl, measured.top1, not measured.allowed
    return Row(name, size, *figures, pinned, tuple(rates))


def _rates(
    bundles: dict[str, Bundle], threads: int, rounds: int, new_tokens: int
) -> dict[str, list[float]]:
    """Tokens a second of each round. All are loaded before the first round, and take turns."""
    backends = {name: open_backend(bundle, "ort", threads) for name, bundle in bundles.items()}
    rates: dict[str, list[float]] = {name: [] for name in bundles}
    hidden = not sys.stderr.isatty()
    for turn in tqdm(range(rounds + 1), desc="timing", disable=hidden, leave=False):
        for name, backend in backends.items():
            rate = _rate(backend, bundles[name].manifest, new_tokens)
            if turn:  # the first one warms up
                rates[name].append(rate)
    for backend in backends.values():
        backend.close()
    return rates


def _rate(backend: Backend, manifest: Manifest, new_tokens: int) -> float:
    prompt = list(manifest.golden.prompt_ids)
    steps = min(new_tokens, manifest.capacity - len(prompt))
    backend.truncate(0)
    for start in range(0, len(prompt), manifest.chunk):
        part = prompt[start : start + manifest.chunk]
        positions = range(start, start + len(part))
        token = backend.step(part, positions, [len(part) - 1], "token").tokens[0]
    begun = time.perf_counter()
    for position in range(len(prompt), len(prompt) + steps):
        token = backend.step([token], [position], [0], "token").tokens[0]
    return steps / (time.perf_counter() - begun)


def _conditions(
    args: argparse.Namespace, threads: int, manifest: Manifest, table: Quality | None
) -> dict[str, object]:
    return {
        "model": manifest.source.checkpoint,
        "machine": platform.machine(),
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": onnxruntime.__version__,
        "threads": threads,
        "prompt_tokens": len(manifest.golden.prompt_ids),
        "new_tokens": args.new_tokens,
        "rounds": args.rounds,
        "eval_text": None if table is None or table.text is None else table.text.name,
        "eval_tokens": None if table is None else table.tokens,
    }


def _text(rows: Sequence[Row], conditions: dict[str, object]) -> list[str]:
    base = next((row for row in rows if row.precision == "fp32"), None)
    reference, pace = (None, None) if base is None else (base.perplexity, base.rate)
    lines = [", ".join(f"{key} {value}" for key, value in conditions.items()), HEAD]
    for row in rows:
        known = row is not base and None not in (row.perplexity, reference)
        change = row.perplexity / reference - 1 if known else None
        ratio = None if None in (row.rate, pace) else row.rate / pace
        cells = [
            f"{row.precision:<13} {row.bytes / 1e6:8.2f}",
            f"{_or_dash(row.perplexity, '.5g'):>11} {_or_dash(change, '+.2%'):>8}",
            f"{_or_dash(row.kl, '.5f'):>9} {_or_dash(row.top1, '.1%'):>7} {len(row.pinned):>6}",
            f"{_or_dash(row.rate, '.1f'):>9}",
            f"{f'{min(row.rates):.1f}-{max(row.rates):.1f}' if row.rates else '-':>15}",
            f"{_or_dash(ratio, '.2f'):>8}",
        ]
        lines.append(" ".join(cells) + ("" if row.within else "  beyond its thresholds"))
    return lines


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _check_plot(path: Path) -> None:
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise EdgeformerError(f"--plot is `{path}`; its name must end with .png, .svg or .pdf")
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        raise EdgeformerError(f"--plot is `{path}`, which cannot be written")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise EdgeformerError(
            "--plot needs the package matplotlib, which is not installed; run "
            '`python -m pip install "edgeformer[plots]"`'
        ) from error


def plot(rows: Sequence[Row], name: str, path: Path) -> None:
    """Size against perplexity, a point for each precision that was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import StrMethodFormatter

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    shown = [row for row in rows if row.perplexity is not None]
    for row in shown:
        x, y = row.bytes / 1e6, row.perplexity
        axes.plot(x, y, "o" if row.within else "x", color="C0", markersize=7)
        axes.annotate(row.precision, (x, y), xytext=(6, 5), textcoords="offset points")
    reference = next((row.perplexity for row in shown if row.precision == "fp32"), None)
    if reference is not None:
        axes.axhline(reference, color="0.6", linewidth=1, linestyle="--", label="float32")
        axes.legend(frameon=False)
        top, bottom = (pick(row.perplexity for row in shown) for pick in (max, min))
        # a change of a thousandth must not look like an abyss
        room = max(LEAST_ROOM * reference, 0.2 * (top - bottom))
        axes.set_ylim(min(bottom, reference) - room, max(top, reference) + room)
    axes.set_xscale("log")
    for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
        ticks(StrMethodFormatter("{x:g}"))
    axes.set(xlabel="bundle, MB (log scale)", ylabel="perplexity (lower is better)", title=name)
    axes.margins(0.2)
    axes.grid(True, which="both", linewidth=0.3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
