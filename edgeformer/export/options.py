"""What can be typed behind `python -m edgeformer.export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from edgeformer.contract import DTYPES
from edgeformer.manifest import DIALECTS, TARGETS

EXAMPLES = """\
examples:
  python -m edgeformer.export export/nano-austen.toml -o bundles/nano-austen
  python -m edgeformer.export --preset nano-start -o bundles/nano-start
  python -m edgeformer.export --model runs/mine -o bundles/mine
  python -m edgeformer.export --model HuggingFaceTB/SmolLM2-135M-Instruct -o bundles/smollm2
  python -m edgeformer.export --model model.gguf --capacity 512 -o bundles/mine
  python -m edgeformer.export --model model.gguf --target cpu --precision n8 -o bundles/mine-n8

what is a checkpoint, and would it export? (reads no weights)
  python -m edgeformer.export inspect PATH_OR_HUB_ID [--json]

would TensorRT parse an ONNX file, anybody's? (lint --help tells the rest)
  python -m edgeformer.export lint FILE.onnx [--target NAME | --tensorrt VERSION] [--json]

bytes, perplexity and speed in every precision, as a table and a plot (precisions --help)
  python -m edgeformer.export precisions RECIPE.toml [--plot FILE.png] [--json]

what would other forms of 8 or 4 bits cost it? (quality --help tells the rest)
  python -m edgeformer.export quality PATH_OR_HUB_ID [--forms n8,n4] [--eval-text FILE]

Exit status: 0 done, 1 the graphs do not compute the model or lose too much of it, 2 something to
change.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m edgeformer.export",
        description="Trace a decoder into ONNX graphs, check them step by step against "
        "PyTorch, and write a bundle for the device.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("recipe", nargs="?", metavar="RECIPE.toml", help="what to export")
    add("--preset", metavar="NAME", help="a preset with random weights (seed 0)")
    add(
        "--model",
        metavar="PATH_OR_HUB_ID",
        help="a checkpoint folder (Hugging Face's layout or ours), a GGUF file, or a hub id; with "
        "a recipe it stands for the recipe's own",
    )
    add("-o", dest="bundle", required=True, metavar="BUNDLE", help="folder to write")
    add("--capacity", type=int, metavar="N", help="rows of the cache: prompt and answer together")
    add("--chunk", type=int, metavar="N", help="most tokens of one prefill step")
    add(
        "--exact-steps",
        action="store_const",
        const=True,
        help="n8: steps of several tokens give the very bits of steps of one, so that greedy text "
        "may be drafted",
    )
    add(
        "--precision",
        choices=tuple(DTYPES),
        help="of the graphs (default fp32, from which TensorRT up to 10 builds FP16 engines too); "
        "fp16: half the bundle, for TensorRT 10 and newer; int8-qdq: for INT8 engines of TensorRT "
        "(--target jetson-orin-nano); int8-dynamic: products in int8 for ONNX Runtime from 1.10 "
        "on, on a Jetson Nano's CPU too; n8, n4: weights of 8 or 4 bits in "
        "blocks, for ONNX Runtime on a CPU (--target cpu)",
    )
    add(
        "--target",
        choices=TARGETS,
        help="what the bundle is for (default: the recipe's, or jetson-nano)",
    )
    add(
        "--dialect",
        choices=DIALECTS,
        help="of the graphs: ort, ONNX Runtime's fused operators (the default for --target cpu in "
        "fp32, n8 and n4, where the model can be written in them; to be asked for in "
        "int8-dynamic), or portable",
    )
    add(
        "--block",
        type=int,
        choices=(32, 64),
        help="inputs that share a scale in n8 (default: what is nearer to float32 on the "
        "calibration text); 64, with smoothed inputs, is faster and smaller",
    )
    _add_quality(add)
    add("--force", action="store_true", help="replace the bundle if it exists")
    return made


def _add_quality(add: Callable[..., object]) -> None:
    add(
        "--eval-text",
        metavar="FILE",
        help="what a reduced precision is measured on: UTF-8, not trained on (default: a sample "
        "of English that is in the repository)",
    )
    add("--calibration-text", metavar="FILE", help="what it is calibrated with (same default)")
    add(
        "--allow-quality-loss",
        action="store_true",
        help="publish a bundle that loses more than its thresholds; its manifest says so",
    )
    add(
        "--embedding",
        choices=("graph", "host"),
        help="host: rows of the embedding are looked up outside the engines, which saves a table",
    )
    add(
        "--no-tokenizer",
        dest="tokenizer",
        action="store_const",
        const=False,
        help="the bundle takes and gives token ids only, whatever the checkpoint has",
    )
