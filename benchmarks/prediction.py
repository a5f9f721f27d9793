"""Is this CPU predicted rightly by its own probe? Predicted against measured, for each bundle.

    python benchmarks/prediction.py --presets 5m,15m,42m,110m,135m -o FILE.json      (host only)
    python benchmarks/prediction.py BUNDLE... --threads 1

Within a round a pass of the probe and a few steps of the bundle take turns, as a machine that
others use too changes its bandwidth by a factor of two between two minutes; the verdict is the
median of the rounds. Presets have random weights: their tokens mean nothing, what they cost is
the same. The last line of stdout is the document, with --json.
"""

import argparse
import json
import os
import sys
import tempfile
from statistics import median
from time import gmtime, perf_counter, strftime
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

# This clone's, installed or not
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy

import edgeformer
from edgeformer.backends import open_backend, ort_module
from edgeformer.backends.threads import default_threads
from edgeformer.bench import conditions
from edgeformer.bundle import Bundle
from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError
from edgeformer.speed import here
from edgeformer.speed.costs import Steps
from edgeformer.speed.predict import Machine, Range, predict

ROWS = 32
LIMIT = 0.25
LEAST_PARAMETERS = 1e6
COLUMNS = ("bundle", "precision", "predicted ms", "measured ms", "ratio", "rounds", "prompt ratio")


class Asked(NamedTuple):
    rounds: int
    threads: int
    passes: int
    tokens: int


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    started, made = perf_counter(), strftime("%Y-%m-%dT%H:%M:%SZ", gmtime())
    try:
        asked = _asked(options)
        with tempfile.TemporaryDirectory() as folder:
            paths = options.bundles + _exported(options.presets, folder)
            if not paths:
                raise EdgeformerError("give bundles, or --presets 5m,15m,42m,110m,135m")
            before = conditions.machine()
            versions = {
                "numpy": numpy.__version__,
                "onnxruntime": ort_module().onnxruntime.__version__,
            }
            before["packages"] = conditions.packages([{"packages": versions}])
            cases = _rounds([Bundle.open(path) for path in paths], asked)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    document = {
        "format": 1,
        "kind": "prediction",
        "made": made,
        "seconds": round(perf_counter() - started, 1),
        "edgeformer": edgeformer.__version__,
        "commit": conditions.commit(),
        "machine": before,
        "load_average_at_end": conditions.machine()["load_average"],
        "settings": dict(asked._asdict(), rows=ROWS, limit=LIMIT),
        "cases": cases,
        "all_within_limit": all(case["within_limit"] for case in cases),
    }
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=1) + "\n")
    print(_table(document), file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps(document))
    return 0 if document["all_within_limit"] else 1


def _asked(options: argparse.Namespace) -> Asked:
    threads = default_threads() if options.threads is None else options.threads
    if not 1 <= threads <= 1024 or not 1 <= options.rounds <= 1000:
        raise EdgeformerError("--threads must be 1 to 1024 and --rounds 1 to 1000")
    return Asked(options.rounds, threads, 7, 8)


def _rounds(bundles: List[Bundle], asked: Asked) -> List[Dict[str, Any]]:
    """Rounds of all bundles by turns; one is loaded at a time, so that each has the machine."""
    found: List[List[Dict[str, Any]]] = [[] for _ in bundles]
    for index in range(asked.rounds):
        for place, bundle in enumerate(bundles):
            name = f"{bundle.manifest.name} {bundle.manifest.precision}"
            print(f"round {index + 1} of {asked.rounds}: {name}", file=sys.stderr, flush=True)
            found[place].append(_round(bundle, asked))
    return [_case(bundle, rounds) for bundle, rounds in zip(bundles, found)]


def _round(bundle: Bundle, asked: Asked) -> Dict[str, Any]:
    steps = Steps(bundle, bundle.manifest.precision, True)
    probe = here.Probe(steps, ROWS, asked.threads)
    machines, runs = [], []
    with open_backend(bundle, "ort", asked.threads) as backend:
        prefill = here.measure(backend, bundle.manifest, ROWS, 1).prefill_s  # warms up, too
        for _ in range(asked.passes):
            machines.append(probe.machine(1))
            runs.append(here.measure(backend, bundle.manifest, ROWS, asked.tokens, prompts=0))
    machine = Machine(*(_median_range(values) for values in zip(*machines)))
    token = predict(steps.decode(ROWS + asked.tokens // 2), machine)
    prompt = predict(steps.prefill(runs[0].tokens), machine)
    return {
        "measured_s": median(value for run in runs for value in run.token_s),
        "predicted_s": token.seconds.middle,
        "parts_s": token.parts,
        "ceiling_tokens_per_s": token.ceiling.middle,
        "prompt_tokens": runs[0].tokens,
        "prompt_measured_s": median(prefill),
        "prompt_predicted_s": prompt.seconds.middle,
        "bandwidth_bytes_per_s": [m.bandwidth.middle for m in machines],
        "multiply_adds_per_s": [m.rate.middle for m in machines],
        "chunk_multiply_adds_per_s": [m.chunk_rate.middle for m in machines],
        "node_s": [m.node.middle for m in machines],
    }


def _median_range(values: Sequence[Range]) -> Range:
    middle = [value.middle for value in values]
    return Range(min(middle), median(middle), max(middle))


def _case(bundle: Bundle, rounds: List[Dict[str, Any]]) -> Dict[str, Any]:
    manifest = bundle.manifest
    step = Steps(bundle, manifest.precision, True).decode(ROWS)
    ratios = sorted(r["predicted_s"] / r["measured_s"] for r in rounds)
    prompts = sorted(r["prompt_predicted_s"] / r["prompt_measured_s"] for r in rounds)
    return {
        "name": manifest.name,
        "precision": manifest.precision,
        "bytes_per_token": step.bytes,
        "flops_per_token": step.flops,
        "nodes": step.nodes,
        "predicted_over_measured": {
            "median": median(ratios),
            "low": ratios[0],
            "high": ratios[-1],
        },
        "prompt_predicted_over_measured": {
            "median": median(prompts),
            "low": prompts[0],
            "high": prompts[-1],
        },
        "within_limit": abs(median(ratios) - 1) <= LIMIT,
        "rounds": rounds,
    }


def _exported(presets: str, folder: str) -> List[str]:
    """FP32 bundles of presets with random weights, in a folder (host only)."""
    if not presets:
        return []
    import dataclasses

    from edgeformer.export import export_decoder
    from edgeformer.nn.costs import costs
    from edgeformer.nn.decoder import Decoder
    from edgeformer.nn.presets import PRESETS

    paths = []
    for name in presets.split(","):
        if name not in PRESETS:
            raise EdgeformerError(f"no preset is called {name[:40]!r}; choose {', '.join(PRESETS)}")
        if costs(PRESETS[name]).parameters < LEAST_PARAMETERS:
            print(f"{name} has fewer than 1M parameters: nodes alone", file=sys.stderr)
        print(f"exporting {name}", file=sys.stderr, flush=True)
        shorter = min(512, PRESETS[name].max_positions)
        decoder = Decoder(dataclasses.replace(PRESETS[name], max_positions=shorter))
        paths.append(f"{folder}/{name}")
        export_decoder(decoder, paths[-1], name=name, capacity=shorter)
    return paths


def _table(document: Dict[str, Any]) -> str:
    rows = [COLUMNS]
    for case in document["cases"]:
        ratio, prompt = case["predicted_over_measured"], case["prompt_predicted_over_measured"]
        rows.append(
            (
                case["name"],
                case["precision"],
                f"{1e3 * median(r['predicted_s'] for r in case['rounds']):.3g}",
                f"{1e3 * median(r['measured_s'] for r in case['rounds']):.3g}",
                f"{ratio['median']:.2f}" + ("" if case["within_limit"] else " *"),
                f"{ratio['low']:.2f} to {ratio['high']:.2f}",
                f"{prompt['median']:.2f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
    machine = document["machine"]
    lines += [
        f"{machine['processor']}, {document['settings']['threads']} threads, load "
        f"{machine['load_average'][0]} to {document['load_average_at_end'][0]}",
        "every ratio within 25 %" if document["all_within_limit"] else "* not within 25 %",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/prediction.py",
        description="Predict steps from a probe of this CPU, and compare them with measured ones. "
        "Exit 1: one is not within 25 %.",
    )
    parser.add_argument("bundles", metavar="BUNDLE", nargs="*")
    parser.add_argument("--presets", default="", help="export these with random weights (host)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="by turns (5)")
    parser.add_argument("--threads", type=int, help="CPU threads (one for each physical core)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the document there")
    parser.add_argument("--json", action="store_true", help="the document on stdout, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
