"""`info`: what a bundle holds, from its manifest."""

import argparse
import json
from typing import List, Optional, Tuple

from edgeformer.cli import console
from edgeformer.contract import DTYPES
from edgeformer.manifest import MODEL_SIZES, Manifest
from edgeformer.manifest_quality import Quality
from edgeformer.manifest_text import TokenizerEntry


def parser() -> argparse.ArgumentParser:
    made = console.parser("info", "Say what a bundle holds. Nothing is loaded.")
    made.add_argument("--json", action="store_true", help="the manifest as one JSON document")
    return made


def run(arguments: argparse.Namespace) -> int:
    from edgeformer import strictjson
    from edgeformer.bundle import MANIFEST, Bundle

    bundle = Bundle.open(arguments.bundle)
    if arguments.json:
        print(json.dumps(strictjson.read(f"{arguments.bundle}/{MANIFEST}", MANIFEST)))
    else:
        console.TextOut().write(_described(bundle.manifest))
    return 0


def _described(manifest: Manifest) -> str:
    model, source = manifest.model, manifest.source
    width = model["n_kv_heads"] * model["head_dim"]
    number = 2 if DTYPES[manifest.precision] == "float16" else 4  # bytes
    cache = 2 * model["n_layers"] * width * number * manifest.capacity
    table = manifest.embedding
    lines = [
        ("name", manifest.name),
        ("made by", ", ".join(f"{name} {it}" for name, it in sorted(manifest.producer.items()))),
        ("checkpoint", f"{source.checkpoint}, licence {source.license or 'unknown'}"),
        ("target", f"{manifest.target}, dialect {manifest.dialect}, {manifest.precision}"),
        ("needs", f"onnxruntime {manifest.min_onnxruntime} or newer"),
        ("model", ", ".join(f"{key} {model[key]}" for key in MODEL_SIZES)),
        ("embedding", "in the graphs" if table is None else f"looked up in {table.file}"),
        ("capacity", f"{manifest.capacity} tokens, a cache of {cache / 1e6:.1f} MB"),
        ("chunk", f"{manifest.chunk} tokens"),
        ("tokenizer", _tokenizer(manifest.tokenizer)),
        ("chat", ", ".join(sorted(manifest.chat_templates)) or "no template"),
        ("end tokens", " ".join(map(str, manifest.eos_token_ids)) or "none"),
        ("sampling", ", ".join(f"{k} {v}" for k, v in manifest.sampling._asdict().items())),
        (
            "golden",
            f"{len(manifest.golden.greedy_ids)} tokens after "
            f"{len(manifest.golden.prompt_ids)}, largest logit error "
            f"{manifest.golden.largest_logit_error:.2g}",
        ),
    ]
    if manifest.exact_steps:
        lines.append(("steps", "exact: several tokens give the bits of one at a time"))
    lines += _quality(manifest.quality)
    lines += [("in floats", f"{pin.module}: {pin.why}") for pin in manifest.pinned]
    lines += [(name, f"{entry.bytes} bytes") for name, entry in sorted(manifest.files.items())]
    indent = max(len(name) for name, _ in lines) + 2
    return "".join(f"{name:{indent}}{text}\n" for name, text in lines)


def _quality(table: Optional[Quality]) -> List[Tuple[str, str]]:
    """A line for each precision that was measured against float32."""
    if table is None:
        return [("quality", "nothing but the golden run was measured")]
    text = "text of its own" if table.text is None else table.text.name
    lines = []
    for name, row in table.precisions.items():
        change = row.perplexity / table.perplexity - 1
        allowed = "; beyond its thresholds, and allowed" if row.allowed else ""
        figures = f"perplexity {row.perplexity:.5g} ({change:+.2%} against fp32), "
        figures += f"KL {row.kl:.2g} nats, top-1 {row.top1:.1%}{allowed}"
        lines.append(("quality", f"{name} on {table.tokens} tokens of {text}: {figures}"))
    return lines


def _tokenizer(entry: Optional[TokenizerEntry]) -> str:
    if entry is None:
        return "none: token ids only"
    if entry.identity is None:
        return f"{entry.kind}, not compared with another"
    found = entry.identity
    wrong = "; ".join(found.differences) or "identical"
    return f"{entry.kind}, held against {found.reference} on {found.texts} texts: {wrong}"
