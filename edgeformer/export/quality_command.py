"""`python -m edgeformer.export quality MODEL`: what fewer bits would cost this model, measured.

Each form is quantized, put into the graph, and run by ONNX Runtime over held-out text beside
PyTorch in float32. Nothing is kept: most forms are there to compare those that bundles have with.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from edgeformer.errors import EdgeformerError
from edgeformer.export.graphs import Traced, assemble, skeleton, trace
from edgeformer.export.nbits import with_blocks
from edgeformer.export.qdq import with_int8
from edgeformer.export.quality import WINDOW, Quality, compare, graph_logits, torch_logits
from edgeformer.export.reading import TOKENS, Reading, Texts, read_texts
from edgeformer.export.tokenizer import write_words
from edgeformer.export.weights import WeightsFile
from edgeformer.export.words import read_words
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families.load import Plan, load_decoder, plan_decoder
from edgeformer.nn.quantize import Blocks, Format
from edgeformer.nn.quantize.decoder import quantize_decoder
from edgeformer.nn.quantize.int8_sensitivity import quantize_int8
from edgeformer.nn.quantize.mix import TABLE, TABLES
from edgeformer.nn.quantize.stored import stored_blocks
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.source import Source

FORM = re.compile(
    r"fp32|stored|n(4|8)(?:-b(\d+))?(-zero)?(?:-(nearest|searched|gptq))?"
    r"|int8-qdq(?:-(max|percentile|entropy|error))?"
)
FORMS = "fp32,n8,n4"
INT8 = "int8-qdq"


def main(words: Sequence[str]) -> int:
    args = _parser().parse_args(words)
    for form in args.forms.split(","):
        _format(form)
    source = open_source(args.model)
    plan = plan_decoder(source)
    calibrate = any(map(_calibrated, args.forms.split(",")))
    texts = Texts(args.eval_text, args.calibration_text, args.tokens)
    reading = read_source(source, plan.config, texts, calibrate)
    windows = reading.windows
    decoder = load_decoder(source, min(WINDOW, plan.config.max_positions))
    rows = []
    for form in args.forms.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = write_form(form, decoder, source, plan, reading.calibration, Path(folder))
            size = sum(file.stat().st_size for file in path.parent.iterdir())
            logits = graph_logits(path, decoder.config)
            with tqdm(total=len(windows), desc=form, disable=not sys.stderr.isatty()) as bar:
                found = compare(torch_logits(decoder), logits, windows, lambda _: bar.update())
        rows.append((form, size, found))
        if not args.json:
            head = _head(found) + "\n" if len(rows) == 1 else ""
            print(head + _line(form, size, found), flush=True)
    if args.json:
        print(json.dumps([{"form": f, "bytes": s, **dataclasses.asdict(q)} for f, s, q in rows]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.export quality",
        description="Measure what fewer bits would cost a model, on held-out text, against PyTorch "
        "in float32. Nothing is exported.",
        epilog="forms: fp32; n8 and n4: weights of 8 and 4 bits in blocks for ONNX Runtime on a "
        "CPU, with a suffix for each choice, as in n4-b64-zero-searched: block size (default b32), "
        "zero points, and how values are chosen (nearest, searched, or the default gptq); stored: "
        "the 8- or 4-bit blocks of a GGUF file as they are. Embedding and head have 8 bits. "
        "int8-qdq: INT8 products for TensorRT, the inputs' ranges chosen by max (default), "
        "percentile, entropy or error, as in int8-qdq-entropy.",
    )
    add = parser.add_argument
    add("model", metavar="PATH_OR_HUB_ID", help="folder, GGUF file or hub id")
    add("--forms", default=FORMS, metavar="F,F", help=f"what to measure (default: {FORMS})")
    add("--eval-text", type=Path, metavar="FILE", help="UTF-8 text, not trained on")
    add("--calibration-text", type=Path, metavar="FILE", help="UTF-8 text to calibrate with")
    add("--tokens", type=int, default=TOKENS, metavar="N", help="that are measured")
    add("--json", action="store_true", help="one JSON document on stdout")
    return parser


def _format(form: str) -> tuple[Format | None, str]:
    """The format of the layers (None: as it is, or INT8) and the method, or INT8's calibrator."""
    found = FORM.fullmatch(form)
    if found is None:
        raise EdgeformerError(
            f"--forms has {form[:40]!r}; say fp32, stored, int8-qdq, n8, n4, or "
            "n4-b64-zero-searched and the like"
        )
    bits, block, zero, method, calibrator = found.groups()
    if bits is None:
        return None, calibrator or "max"
    return Format(int(bits), int(block or 32), not zero), method or "gptq"


def _calibrated(form: str) -> bool:
    format, method = _format(form)
    return form.startswith(INT8) or (format is not None and method != "nearest")


def read_source(source: Source, config: ModelConfig, texts: Texts, calibrate: bool) -> Reading:
    """The texts through the checkpoint's own tokenizer."""
    with tempfile.TemporaryDirectory() as folder:
        words = write_words(Path(folder), read_words(source), config.vocab_size, compared=False)
    if words is None:
        raise EdgeformerError(f"`{source.where}` has no tokenizer, so that no text can be read")
    return read_texts(texts, words.tokenizer, config.max_positions, calibrate)


def write_form(
    form: str, decoder: Decoder, source: Source, plan: Plan, ids: torch.Tensor, folder: Path
) -> Path:
    """The prefill graph of a form and its weights. ids: int64 [sequences, length], calibration."""
    format, method = _format(form)
    blocks: dict[str, Blocks] = {}
    traced = trace(skeleton(decoder.config), "prefill", decoder.state_dict())
    if form == "stored":
        blocks = stored_blocks(source, plan)
        if not blocks:
            raise EdgeformerError(
                f"`{source.where}` stores no matrix as Q8_0, Q4_0 or Q4_1; leave out the form "
                "stored"
            )
    elif form.startswith(INT8):
        traced = with_int8(traced, quantize_int8(decoder, ids, method))
    elif format is not None:

        def choose(name: str) -> Format:
            return TABLE if name in TABLES else format

        blocks = quantize_decoder(decoder, choose, ids, method, keep=True)
    return write_prefill(with_blocks(traced, blocks) if blocks else traced, folder)


def write_prefill(traced: Traced, folder: Path) -> Path:
    with WeightsFile(folder) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    path = folder / traced.contract.file
    path.write_bytes(model.SerializeToString())
    return path


def _head(found: Quality) -> str:
    return (
        f"{found.tokens} tokens, windows that begin empty; PyTorch in float32: perplexity "
        f"{found.reference_perplexity:.4g}\n"
        f"{'form':<24} {'MB':>8} {'perplexity':>11} {'change':>9} {'KL, nats':>9} {'top-1':>7}"
    )


def _line(form: str, size: int, found: Quality) -> str:
    return (
        f"{form:<24} {size / 1e6:8.1f} {found.perplexity:11.4g} {found.loss:+9.2%} "
        f"{found.kl:9.5f} {found.top1:7.1%}"
    )
