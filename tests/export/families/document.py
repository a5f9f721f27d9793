"""docs/families.md: the measured figures and the families' demands as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from edgeformer.nn.families import FAMILIES, ours
from edgeformer.nn.families.family import GATED_ACTIVATIONS, PLAIN_ACTIVATIONS
from edgeformer.nn.families.keys import PLAIN
from edgeformer.nn.families.rope_keys import KNOWN
from tests.export.families.fused import figures as fused_figures
from tests.export.families.models import (
    CAPACITY,
    CHUNK,
    STEPS,
    TOLERANCE,
    shapes_of,
    tokenizer_name,
)
from tests.export.families.refusals import Demands, demands, word

ACTIVATIONS = {
    "a plain activation": set(PLAIN_ACTIVATIONS),
    "a gated activation": set(GATED_ACTIVATIONS),
}

TEXT = """\
# Checkpoint families

<!-- made by tests.export.families.make_docs -->

What `python -m edgeformer.export --model` takes, and what was measured of each family. The figures
are of tiny random models: they say that a mapping is right, not how fast or good a real model is.

For each shape `transformers` makes a model at odd sizes and saves it as a checkpoint folder, with a
small tokenizer that cuts text as the family's published ones do. The export command makes a bundle
of the folder, for a capacity of {capacity}. Then the bundle runs through ONNX Runtime on two
Pythons, from a text prompt of about 40 tokens, in chunks of {chunk}:

- **logit error**: the largest difference from `transformers` in fp32 without a cache, after the
  prompt and after each of the {steps} tokens but the last, in units of max(1, the largest |logit|
  of that step); the worst of all shapes on both Pythons. It may be {tolerance:g}. The tests fail
  earlier, where a shape's error is above 2 to 5 times the measured one: CPUs round differently.
- **greedy equal**: how many of the {steps} tokens that a bundle says by itself are those of
  `transformers`, up to the first that is not, in the shape where they are fewest; then the same on
  Python 3.6. Each run has at least 16 distinct tokens (the fewest stand in the table), and no token
  in it leads by less than 10 times the tolerance.
- **tokenizer equal**: how many texts get the ids of `transformers` on both Pythons: the prompt, and
  the strings of `edgeformer/text/hard_strings.py`, with control tokens found in them.
- **lint**: what `export lint --target jetson-nano` and the export's own list of operators have
  against the two graphs.

{versions}

{figures}

## In ONNX Runtime's own operators

The same checkpoints and prompts in dialect `ort` (`--target cpu`, fp32), in the newer of both ONNX
Runtimes, against the same logits of `transformers`. How attention stands in the graph is read from
its nodes: "it" is the operator GroupQueryAttention, of which each layer has one. Where widths are
multiples of 16 it turns queries and keys inside ([cpu.md](cpu.md)). No shape here has such widths:
one of each family that turns was measured with heads of 16, 32 or 64 as well, all turned inside: an
error of 1.6e-05 at most (smollm3), and 64 of 64 tokens in all 16. Few models here have rows of
whole blocks of 32, which `n8` and `n4` want, so these two were not measured family by family.

{fused}

## Shapes

{shapes}

## What a mapping refuses

A key that no mapping explains is refused by name, in every family, and so is any value of the keys
below but those that stand behind them. A key that is absent or null is fine. What depends on more
than one key (lists of layers, widths of RoPE, shapes of tensors) is refused by name too, but is not
listed here.

In every family: {plain}. RoPE may be of the kinds {ropes}. A plain activation is {activations}; a
gated one {gated}.

{refusals}
"""


def document(measured: dict[str, Any], fused: dict[str, Any]) -> str:
    families = sorted(set(FAMILIES) - {ours.NAME})
    plain = {name: set(map(word, values)) for name, values in PLAIN.items()}
    return TEXT.format(
        capacity=CAPACITY,
        steps=STEPS,
        chunk=CHUNK,
        tolerance=TOLERANCE,
        versions=_versions(measured["versions"]),
        figures=_figures(measured["shapes"], families),
        fused=fused_figures(fused, ((family, shapes_of(family)) for family in families)),
        shapes="\n".join(f"- {f}: {', '.join(map(_shape, shapes_of(f)))}" for f in families),
        plain=_demands(plain),
        ropes=", ".join(f"`{kind}`" for kind in KNOWN),
        activations=_either(PLAIN_ACTIVATIONS),
        gated=_either(GATED_ACTIVATIONS),
        refusals="\n".join(f"- {f}: {_demands(demands(f))}" for f in families),
    )


def limit(error: float) -> float:
    """1, 2 or 5 times a power of ten, at least twice the error: another CPU rounds otherwise."""
    power = 10.0 ** math.floor(math.log10(2 * error))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= 2 * error)


def _versions(found: dict[str, str]) -> str:
    here = ", ".join(f"{name} {v}" for name, v in found.items() if not name.endswith(" on 3.6"))
    there = ", ".join(
        f"{name.removesuffix(' on 3.6')} {v}" for name, v in found.items() if "on 3.6" in name
    )
    return f"Measured on x86-64 with {here}; and with {there}."


def _figures(shapes: dict[str, Any], families: list[str]) -> str:
    rows = [
        "| family | shapes | logit error | greedy equal | on 3.6 | distinct tokens "
        "| tokenizer | tokenizer equal | lint |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for family in families:
        names = shapes_of(family)
        found = [shapes[name] for name in names]
        error = max(each["error"] for each in found)
        kinds = ", ".join(dict.fromkeys(map(tokenizer_name, names)))
        texts = "{} of {}".format(*(sum(e[k] for e in found) for k in ("texts", "texts_tried")))
        findings = sum(each["findings"] for each in found)
        cells = [
            f"{family} | {len(names)} | {error:.1e}",
            f"{min(e['equal'] for e in found)} of {STEPS}",
            f"{min(e['equal_36'] for e in found)} of {STEPS}",
            f"{min(e['distinct'] for e in found)} | {kinds} | {texts}",
            f"{findings} findings" if findings else "clean",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _shape(name: str) -> str:
    return f"`{name}`"


def _demands(found: Demands) -> str:
    said = []
    for name, values in sorted(found.items()):
        kind = next((kind for kind, names in ACTIVATIONS.items() if names == values), None)
        said.append(f"`{name}` {kind or _either(values) or 'absent'}")
    return "; ".join(said) or "nothing more"


def _either(values: Iterable[str]) -> str:
    return " or ".join(f"`{value}`" for value in sorted(values))
