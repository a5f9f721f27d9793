"""Named model sizes, and what each costs: `python -m edgeformer.nn.presets`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from types import MappingProxyType

from edgeformer.nn.config import ModelConfig, Rope
from edgeformer.nn.costs import NOTES, PRECISIONS, Costs, costs


def _nano(
    d_model: int, n_heads: int, d_ff: int, max_positions: int, n_layers: int = 1
) -> ModelConfig:
    # 256: a byte a token. Training puts its tokenizer's size there.
    return ModelConfig(256, d_model, n_layers, n_heads, d_ff, max_positions)


PRESETS: Mapping[str, ModelConfig] = MappingProxyType(
    {
        # to learn with: width 64 or 128, 2 or 4 heads, 16 to 64 tokens, d_ff twice or four times
        "nano-xs": _nano(64, 2, 128, 16),
        "nano-s": _nano(64, 4, 256, 32),
        "nano-start": _nano(128, 4, 256, 32),
        "nano-m": _nano(128, 2, 512, 32, n_layers=2),
        "nano-l": _nano(128, 4, 512, 64, n_layers=2),
        # to use, by parameters; vocabulary and depth grow with the width
        "1m": ModelConfig(1024, 128, 4, 4, 384, 256),
        "5m": ModelConfig(4096, 256, 6, 8, 640, 512, n_kv_heads=4),
        # the shapes of the TinyStories models of llama2.c
        "15m": ModelConfig(32000, 288, 6, 6, 768, 256),
        "42m": ModelConfig(32000, 512, 8, 8, 1376, 1024),
        "110m": ModelConfig(32000, 768, 12, 12, 2048, 1024),
        # the shape of SmolLM2-135M
        "135m": ModelConfig(
            49152, 576, 30, 9, 1536, 8192, n_kv_heads=3, rope=Rope(theta=100_000.0)
        ),
    }
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.nn.presets",
        description="Show the named model sizes: parameters, bytes, operations a token.",
    )
    parser.add_argument("--json", action="store_true", help="exact numbers, as one JSON document")
    options = parser.parse_args(arguments)
    found = {name: costs(config) for name, config in PRESETS.items()}
    print(_as_json(found) if options.json else _as_table(found))
    return 0


def _as_json(found: dict[str, Costs]) -> str:
    presets = {
        name: {"model": PRESETS[name].to_json(), **cost._asdict()} for name, cost in found.items()
    }
    return json.dumps({"presets": presets, "notes": NOTES}, indent=1)


def _as_table(found: dict[str, Costs]) -> str:
    sizes = ("d_model", "layers", "heads", "d_ff", "vocab", "tokens", "parameters")
    rows = [("preset", *sizes, *PRECISIONS, "cache fp32", "cache fp16", "FLOP/token")]
    for name, cost in found.items():
        c = PRESETS[name]
        heads = str(c.n_heads) if c.n_heads == c.n_kv_heads else f"{c.n_heads}/{c.n_kv_heads}"
        numbers = (c.d_model, c.n_layers, heads, c.d_ff, c.vocab_size, c.max_positions)
        stored = [*cost.weight_bytes.values(), *cost.cache_bytes.values()]
        sizes = [_short(cost.parameters), *(f"{_short(n)}B" for n in stored)]
        rows.append((name, *map(str, numbers), *sizes, _short(cost.flops_per_token)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths)) for row in rows]
    return "\n".join([*lines, "", *(f"{key}: {note}" for key, note in NOTES.items())])


def _short(number: int) -> str:
    """Three digits and a decimal unit: 1234567 -> 1.23 M."""
    value, unit = float(number), " "
    for larger in ("k", "M", "G", "T"):
        if value < 999.5:
            break
        value, unit = value / 1000, f" {larger}"
    digits = 0 if unit == " " or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}{unit}"


if __name__ == "__main__":
    sys.exit(main())
