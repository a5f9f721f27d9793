"""Time per token against the rows in use, for bundles of one model and several capacities.

    python benchmarks/rows_in_use.py BUNDLE... [--rounds N] [--json] [--plot FILE.png]
    python benchmarks/rows_in_use.py --preset NAME --capacities 256 1024 ...

A step reads the rows in use, in whole buckets, and never the rest of the capacity: at equal rows
the bundles must cost the same. Rounds alternate between the bundles, so that a machine that
slows down slows down all of them. --preset exports random weights on the spot (host only).
"""

import argparse
import json
import sys
import tempfile
from statistics import median
from time import perf_counter
from typing import Any, Dict, List, Optional

from conditions import conditions, shown

import edgeformer

ROWS = (1, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            bundles = options.bundles
            if options.preset:
                bundles = _export(options.preset, options.capacities, folder)
            if not bundles:
                raise edgeformer.EdgeformerError("give bundles, or --preset with --capacities")
            models = [edgeformer.load(path, threads=options.threads) for path in bundles]
            report = measure(models, options.rounds)
    except edgeformer.EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.plot:
        plot(report, options.plot)
    print(json.dumps(report) if options.json else _table(report))
    return 0


def measure(models: List["edgeformer.Model"], rounds: int, tokens: int = 8) -> Dict[str, Any]:
    """Median milliseconds of one-token steps at each number of rows in use."""
    capacities = [model.bundle.manifest.capacity for model in models]
    points = [1, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    points = [rows for rows in points if rows + tokens <= max(capacities)]
    seen = {}  # type: Dict[Any, List[float]]
    for index in range(rounds + 1):
        for rows in points:
            for place, model in enumerate(models):
                if rows + tokens <= capacities[place]:
                    times = _steps(model, rows, tokens)
                    if index:  # the first round warms up each shape
                        seen.setdefault((place, rows), []).append(median(times))
    return {
        "conditions": [conditions(model, rounds=rounds, tokens=tokens) for model in models],
        "rows": points,
        "capacities": capacities,
        "ms": [
            [1e3 * median(seen[place, rows]) if (place, rows) in seen else None for rows in points]
            for place in range(len(models))
        ],
    }


def _steps(model: "edgeformer.Model", rows: int, tokens: int) -> List[float]:
    """Seconds of each one-token step that follows `rows` cached ones."""
    backend, chunk = model.backend, model.bundle.manifest.chunk
    backend.truncate(0)
    for start in range(0, rows, chunk):
        part = range(start, min(start + chunk, rows))
        backend.step([1 + i % 7 for i in part], part, [0], "token")
    times = []
    for position in range(rows, rows + tokens):
        started = perf_counter()
        backend.step([1], [position], [0], "token")
        times.append(perf_counter() - started)
    return times


def _export(preset: str, capacities: List[int], folder: str) -> List[str]:
    """Bundles of one preset with the same random weights, one for each capacity."""
    import dataclasses

    from edgeformer.export import export_decoder
    from edgeformer.nn.decoder import Decoder
    from edgeformer.nn.presets import PRESETS

    if preset not in PRESETS:
        raise edgeformer.EdgeformerError(f"no preset {preset!r}; known: {', '.join(PRESETS)}")
    config = dataclasses.replace(PRESETS[preset], max_positions=max(capacities))
    decoder = Decoder(config)
    paths = []
    for capacity in capacities:
        print(f"exporting {preset} with capacity {capacity}", file=sys.stderr)
        paths.append(f"{folder}/{capacity}")
        export_decoder(decoder, paths[-1], name=f"{preset}-{capacity}", capacity=capacity)
    return paths


def _table(report: Dict[str, Any]) -> str:
    lines = ["conditions", shown(report["conditions"][0]), "ms per token, median"]
    lines.append("rows in use" + "".join(f"{f'capacity {c}':>16}" for c in report["capacities"]))
    for index, rows in enumerate(report["rows"]):
        cells = [column[index] for column in report["ms"]]
        lines.append(
            f"{rows:11}" + "".join(f"{'-' if c is None else f'{c:.3f}':>16}" for c in cells)
        )
    return "\n".join(lines)


def plot(report: Dict[str, Any], path: str) -> None:
    """The same as a picture (host: needs matplotlib)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    markers = "osv^Dx"
    for place, capacity in enumerate(report["capacities"]):
        pairs = [p for p in zip(report["rows"], report["ms"][place]) if p[1] is not None]
        axes.plot(*zip(*pairs), marker=markers[place % 6], label=f"capacity {capacity}")
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows in use")
    axes.set_ylabel("ms per token (median)")
    first = report["conditions"][0]
    axes.set_title(
        f"{first['bundle']}, {first['backend']}, {first['threads']} threads", fontsize=10
    )
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/rows_in_use.py",
        description="Time per token against rows in use, for bundles of several capacities.",
    )
    parser.add_argument("bundles", metavar="BUNDLE", nargs="*")
    parser.add_argument("--preset", help="export this preset with random weights (host only)")
    parser.add_argument("--capacities", type=int, nargs="+", default=[256, 1024], metavar="N")
    parser.add_argument("--rounds", type=int, default=5, help="rounds after a warm-up (5)")
    parser.add_argument("--threads", type=int, help="CPU threads (one for each physical core)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--plot", metavar="FILE.png", help="draw it, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
