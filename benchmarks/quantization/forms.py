"""Forms of 4 and 8 bits of one model: bytes, KL from float32, and the time of a token.

    python -m benchmarks.quantization.forms MODEL [--forms F,F] [--rounds N] [--json FILE]

The forms are those of `python -m edgeformer.export quality`, and `mix-BUDGET`: 4 bits, and 8 bits
where they are needed to come down to so many nats of KL, whatever grid the weights lie on. Each is
timed one token at a time over 64 cached rows, in rounds that alternate between the forms; times are
given against the first one. Host environment.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnxruntime
import torch

from edgeformer.export import quality_command
from edgeformer.export.graphs import skeleton, trace
from edgeformer.export.nbits import with_blocks
from edgeformer.export.quality import WINDOW, compare, graph_logits, torch_logits
from edgeformer.export.reading import SAMPLE, Texts
from edgeformer.nn.families.load import load_decoder, plan_decoder
from edgeformer.nn.quantize import Format
from edgeformer.nn.quantize.mix import mixed
from edgeformer.nn.sources import open_source
from edgeformer.targets import processor

FORMS = "n4,n4-zero,n4-searched,n4-nearest,mix-0.01,stored,n8-nearest"
PAST, STEPS = 64, 16


def main() -> int:
    args = _parser().parse_args()
    source = open_source(args.model)
    plan = plan_decoder(source)
    reading = quality_command.read_source(source, plan.config, Texts(), True)
    decoder = load_decoder(source, min(WINDOW, plan.config.max_positions))
    reference = torch_logits(decoder)
    rows, paths = {}, {}
    with tempfile.TemporaryDirectory() as made:
        for form in args.forms.split(","):
            folder = Path(made) / form
            folder.mkdir()
            name = form
            if form.startswith("mix-"):
                name = f"{form}: {_mix(form, decoder, reading.calibration, folder)}"
            else:
                quality_command.write_form(form, decoder, source, plan, reading.calibration, folder)
            paths[name] = folder / "prefill.onnx"
            logits = graph_logits(paths[name], decoder.config)
            found = compare(reference, logits, reading.windows)
            size = (folder / "weights.bin").stat().st_size
            rows[name] = {"bytes": size, "loss": found.loss, "kl": found.kl, "top1": found.top1}
            print(name, rows[name], file=sys.stderr, flush=True)
        for name, times in _times(paths, decoder.config, args.rounds, args.threads).items():
            rows[name]["ms"] = times
    report = {"conditions": _conditions(args, found.tokens), "rows": rows}
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n", encoding="ascii")
    print(json.dumps(report["conditions"]))
    first = statistics.median(rows[next(iter(rows))]["ms"])
    print(
        "| form | MB | perplexity | KL, nats | top-1 | time of a token |\n|---|---|---|---|---|---|"
    )
    for name, r in rows.items():
        figures = f"{r['bytes'] / 1e6:.1f} | {r['loss']:+.2%} | {r['kl']:.4f} | {r['top1']:.1%}"
        print(f"| {name} | {figures} | {statistics.median(r['ms']) / first:.2f} |")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = made.add_argument
    add("model", metavar="MODEL", help="folder, GGUF file or hub id")
    add("--forms", default=FORMS, metavar="F,F", help="(default: %(default)s)")
    add("--rounds", type=int, default=7, metavar="N", help="(default: %(default)s)")
    add("--threads", type=int, default=1, metavar="N", help="(default: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="write the report there")
    return made


def _mix(form: str, decoder: Any, ids: Any, folder: Path) -> str:
    found = mixed(decoder, ids, Format(4), float(form.partition("-")[2]), grids=False)
    traced = trace(skeleton(decoder.config), "prefill", decoder.state_dict())
    quality_command.write_prefill(with_blocks(traced, found.blocks), folder)
    return found.name


def _times(
    paths: Dict[str, Path], config: Any, rounds: int, threads: int
) -> Dict[str, List[float]]:
    """Milliseconds of a token, the median of each round's steps; the first round is not kept."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    sessions = {
        name: onnxruntime.InferenceSession(str(path), options) for name, path in paths.items()
    }
    found: Dict[str, List[float]] = {name: [] for name in paths}
    for turn in range(rounds + 1):
        for name, session in sessions.items():
            inputs = {
                value.name: np.zeros((PAST, config.kv_width), np.float32)
                for value in session.get_inputs()
                if value.name.startswith("past.")
            }
            inputs.update(token_ids=np.array([5], np.int32), rows=np.zeros(1, np.int32))
            inputs["positions"] = np.array([PAST], np.int32)
            inputs["past_positions"] = np.arange(PAST, dtype=np.int32)
            took = []
            for _ in range(STEPS):
                begun = time.perf_counter()
                session.run(["logits"], inputs)
                took.append(1e3 * (time.perf_counter() - begun))
            if turn:
                found[name].append(statistics.median(took))
    return found


def _conditions(args: argparse.Namespace, tokens: int) -> Dict[str, Any]:
    return {
        "model": Path(args.model).name,
        "text": SAMPLE.name,
        "tokens": tokens,
        "rounds": args.rounds,
        "steps_a_round": STEPS,
        "cached_rows": PAST,
        "threads": args.threads,
        "cpu": processor(),
        "onnxruntime": onnxruntime.__version__,
        "torch": str(torch.__version__),
    }


if __name__ == "__main__":
    sys.exit(main())
