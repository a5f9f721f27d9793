"""What a pruning leaves: a table, a checkpoint folder that exports like any other, prune.json."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import torch

from edgeformer.export.quality import Quality
from edgeformer.export.words import Words
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.costs import costs
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.prune.budget import bytes_per_token
from edgeformer.nn.prune.decoder import Kept
from edgeformer.nn.prune.removal import Removal
from edgeformer.nn.sources.source import Source

RECORD_FILE = "prune.json"
TOKENIZER_CONFIG, GENERATION_CONFIG = "tokenizer_config.json", "generation_config.json"
CARD = "README.md"  # where a source looks for the licence
CARD_TEXT = f"Pruned by edgeformer; {RECORD_FILE} says from what, and at which loss.\n"
IMPORTANCE = {
    "ff": "the error that a neuron leaves in its layer's output after the others made up for it "
    "(Optimal Brain Surgeon; ZipLM, arXiv:2302.04089)",
    "kv": "the same for the columns of a KV group in the attention's output projection",
    "layers": "1 - mean cosine of a layer's input and output (ShortGPT, arXiv:2403.03853); of the "
    "four lowest, the least KL divergence from the whole model without it",
}


def removed(c: ModelConfig, removal: Removal, kept: Kept) -> dict[str, Any]:
    """For prune.json: how much of each kind went, which of it, and by what it was judged."""
    found: dict[str, Any] = {}
    if removal.ff:
        found["ff"] = {"neurons": removal.ff, "of": c.d_ff}
        found["ff"]["relative error by layer"] = _rounded(kept.ff_errors)
    if removal.kv:
        found["kv"] = {"groups": removal.kv, "of": c.n_kv_heads}
        found["kv"]["kept by layer"] = kept.groups
        found["kv"]["relative error by layer"] = _rounded(kept.attention_errors)
    if removal.layers:
        gone = sorted(set(range(c.n_layers)) - set(kept.layers))
        found["layers"] = {"layers": gone, "of": c.n_layers}
    for kind, entry in found.items():
        entry["importance"] = IMPORTANCE[kind]
    return found


def sizes(c: ModelConfig, precision: str) -> dict[str, Any]:
    """By formula; the last two at full capacity."""
    found = costs(c)
    return {
        "parameters": found.parameters,
        f"{precision} bytes": found.weight_bytes[precision],
        "FLOP a token, predicted": found.flops_per_token,
        "bytes read a token, predicted": bytes_per_token(c, precision),
    }


def table(before: ModelConfig, after: ModelConfig, stages: dict[str, Quality]) -> str:
    first = next(iter(stages.values()))
    rows = [("", "parameters", "perplexity", "change", "KL, nats", "top-1")]
    count, whole = f"{costs(before).parameters:,}", f"{first.reference_perplexity:.4g}"
    rows.append(("unpruned", count, whole, "", "", ""))
    for stage, q in stages.items():
        figures = (f"{q.perplexity:.4g}", f"{q.loss:+.2%}", f"{q.kl:.5f}", f"{q.top1:.1%}")
        rows.append((stage, f"{costs(after).parameters:,}", *figures))
    head = f"{first.tokens} tokens of held-out text, windows that begin empty, PyTorch in float32"
    lines = [f"{row[0]:<10}" + "".join(f"{cell:>14}" for cell in row[1:]) for row in rows]
    return "\n".join([head, *(line.rstrip() for line in lines)])


def write_result(
    folder: Path,
    decoder: Decoder,
    words: Words,
    source: Source,
    dtype: torch.dtype,
    record: dict[str, Any],
) -> None:
    """The checkpoint, its words as they were, and the record."""
    save_checkpoint(folder, decoder, words.tokenizer_json, dtype)
    templates = [{"name": n, "template": t} for n, t in words.chat_templates.items()]
    tokenizer_config: dict[str, Any] = dict(words.named_tokens)
    if words.add_bos is not None:
        tokenizer_config["add_bos_token"] = words.add_bos
    if templates:
        tokenizer_config["chat_template"] = templates
    ends = list(words.eos_token_ids)
    files = {
        TOKENIZER_CONFIG: _json(tokenizer_config) if tokenizer_config else "",
        GENERATION_CONFIG: _json({"eos_token_id": ends}) if ends else "",
        RECORD_FILE: _json({**record, "made by": _versions()}),
    }
    for name, text in files.items():
        if not text:  # of the result that --force replaces
            (folder / name).unlink(missing_ok=True)
            continue
        _write(folder / name, text)
    card = folder / CARD
    if not card.exists() or card.read_text("utf-8", "replace").endswith(CARD_TEXT):
        front = f"---\nlicense: {source.license}\n---\n\n" if source.license else ""
        _write(card, front + CARD_TEXT)


@torch.no_grad()
def round_weights(decoder: Decoder, dtype: torch.dtype) -> None:
    """To what will be stored, which is then measured. What overflows stays: saving says so."""
    for p in decoder.parameters():
        rounded = p.to(dtype).float()
        p.copy_(torch.where(torch.isfinite(rounded), rounded, p))


def _write(path: Path, text: str) -> None:
    staged = path.with_name(path.name + ".partial")
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)


def _versions() -> dict[str, str]:
    return {"torch": torch.__version__, "python": platform.python_version()}


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _rounded(errors: list[float]) -> list[float]:
    return [float(f"{error:.4g}") for error in errors]
