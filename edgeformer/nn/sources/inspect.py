"""What a checkpoint is and what would become of it, told without reading its weights."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families.load import Plan, plan_decoder
from edgeformer.nn.sources.source import Source

# Bytes that the exported weights take: an element of a matrix, and one of the rest. Tables that are
# only looked up belong to the rest.
PRECISIONS = {
    "fp32": (4.0, 4),
    "fp16": (2.0, 2),
    "int8": (1.0, 4),  # a float32 scale for each row, too few to count
    "int4": (0.5 + 4 / 32, 4),  # a float32 scale for each 32
}
TABLES = ("embedding.weight", "position_embedding.weight")
ALWAYS = (
    *("vocab_size", "d_model", "n_layers", "n_heads", "n_kv_heads", "head_dim", "d_ff"),
    *("max_positions", "position", "norm", "feed_forward", "tie_embeddings"),
)


def describe(source: Source) -> dict[str, Any]:
    """Plain values for JSON. `unsupported` is empty where the weights can be exported.

    `tokenizer` and `notes` are for whoever makes the tokenizer, too.
    """
    stored = [source.stored(name) for name in source.names()]
    precisions: dict[str, dict[str, int]] = {}
    for tensor in stored:
        entry = precisions.setdefault(tensor.precision, {"tensors": 0, "bytes": 0})
        entry["tensors"] += 1
        entry["bytes"] += tensor.bytes
    facts: dict[str, Any] = {
        "where": source.where,
        "kind": source.kind,
        "model_type": source.family if isinstance(source.family, str) else None,
        "license": source.license,
        "stored": {"tensors": len(stored), "bytes": sum(t.bytes for t in stored)},
        "stored_by_precision": precisions,
        "tokenizer_files": sorted(source.tokenizer_files),
        "tokenizer": None,
        "tokenizer_model": source.metadata.get("tokenizer.ggml.model"),
        "chat_templates": sorted(source.chat_templates),
        "eos_token_ids": source.eos_token_ids,
        "model": None,
        "exported": None,
        "notes": [],
        "unsupported": [],
    }
    try:
        plan = plan_decoder(source)
    except EdgeformerError as error:
        facts["unsupported"].append(str(error))
        return facts
    facts["model"], facts["exported"] = _model(plan.config), _exported(plan)
    return facts


def described(facts: dict[str, Any]) -> str:
    """The facts as text for a person."""
    stored = ", ".join(
        f"{name} {entry['tensors']} tensors {_size(entry['bytes'])}"
        for name, entry in sorted(facts["stored_by_precision"].items())
    )
    lines = [
        f"{facts['where']}: {facts['kind']}, model type {facts['model_type']}, "
        f"licence {facts['license'] or 'not stated'}",
        f"stored: {_size(facts['stored']['bytes'])} ({stored})",
        f"tokenizer: {_tokenizer(facts)}",
        f"chat templates: {', '.join(facts['chat_templates']) or 'none'}",
        f"end tokens: {', '.join(map(str, facts['eos_token_ids'])) or 'none'}",
    ]
    if facts["model"] is not None:
        model, exported = facts["model"], facts["exported"]
        sizes = ", ".join(f"{name} {_size(n)}" for name, n in exported["weight_bytes"].items())
        lines += [
            f"model: {exported['parameters']:,} parameters, {model['n_layers']} layers, "
            f"d_model {model['d_model']}, {model['n_heads']} heads, {model['n_kv_heads']} key "
            f"heads of {model['head_dim']}, d_ff {model['d_ff']}, vocabulary {model['vocab_size']}",
            f"positions: {model['position']}, up to {model['max_positions']}",
            f"weights, exported: {sizes}",
            f"cache: {_size(exported['cache_bytes_per_token'])} a token in fp32",
        ]
    lines += [f"note: {note}" for note in facts["notes"]]
    lines += [f"NOT SUPPORTED: {reason}" for reason in facts["unsupported"]]
    return "\n".join(lines)


def _tokenizer(facts: dict[str, Any]) -> str:
    stored = ", ".join(facts["tokenizer_files"]) or facts["tokenizer_model"] or "none"
    made = facts["tokenizer"]
    return stored if made is None else f"{made['kind']}, {made['ids']} ids ({stored})"


def _model(config: ModelConfig) -> dict[str, Any]:
    """The sizes and main choices, and any other field that is not at its default."""
    default = {field.name: field.default for field in dataclasses.fields(config)}
    return {
        name: value
        for name, value in config.to_json().items()
        if name in ALWAYS or getattr(config, name) != default[name]
    }


def _exported(plan: Plan) -> dict[str, Any]:
    """Sizes of the weights alone: graphs and position tables come on top."""
    matrices = rest = 0
    for name, shape in plan.shapes.items():
        looked_up = name in TABLES and not (plan.config.tie_embeddings and name == TABLES[0])
        if len(shape) == 2 and not looked_up:
            matrices += math.prod(shape)
        else:
            rest += math.prod(shape)
    return {
        "parameters": matrices + rest,
        "weight_bytes": {
            name: round(matrices * inside) + rest * outside
            for name, (inside, outside) in PRECISIONS.items()
        },
        "cache_bytes_per_token": 8 * plan.config.n_layers * plan.config.kv_width,
    }


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"
