"""The same checkpoints in dialect `ort`: how attention stands in the graph, and what it says.

    .venv/bin/python -m tests.export.families.fused

measures every shape anew and writes fused.json and docs/families.md; make_docs does so too.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from edgeformer.bundle import Bundle
from edgeformer.export.__main__ import main as export
from edgeformer.export.source import DEFAULT_PROMPT
from tests.export.families.models import CAPACITY, CHUNK, Dice, Said, save
from tests.follow import follow

FUSED = Path(__file__).with_name("fused.json")
BIAS = 10  # the input of GroupQueryAttention that is added to scores


def fused_measured() -> dict[str, Any]:
    return json.loads(FUSED.read_text("utf-8"))


def measure_fused(said: Said, folder: Path) -> dict[str, Any]:
    """Of the checkpoint in folder/source, by the command that a person would type."""
    target, logits = folder / "fused", folder / "fused-logits.npy"
    words = ["--model", folder / "source", "-o", target, "--target", "cpu", "--dialect", "ort"]
    words += ["--capacity", CAPACITY, "--chunk", CHUNK]
    if export([str(word) for word in words]) != 0:
        raise AssertionError(f"{folder.name} was not exported; the reason stands above")
    np.save(logits, said.logits)
    job = {"bundle": str(target), "text": DEFAULT_PROMPT, "prompt": said.prompt}
    ran = follow({**job, "tokens": said.tokens, "logits": str(logits), "texts": []})
    pairs = zip(ran["tokens"], said.tokens, strict=True)
    equal = next(
        (i for i, (found, wanted) in enumerate(pairs) if found != wanted), len(said.tokens)
    )
    return {"form": form_of(target), "error": ran["error"], "equal": equal}


def form_of(path: Path) -> list[str]:
    """How attention stands in a bundle's graph: read from its nodes, not from what made them."""
    model = Bundle.open(str(path)).manifest.model
    graph = onnx.load(path / "step.onnx", load_external_data=False).graph
    nodes = [node for node in graph.node if node.op_type == "GroupQueryAttention"]
    if len(nodes) != model["n_layers"]:
        raise AssertionError(f"{len(nodes)} attentions in {model['n_layers']} layers")
    said = [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in nodes]
    inputs = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    turning, head = sum(each["do_rotary"] for each in said), model["head_dim"]
    cached = inputs["past.0.key"][-1].dim_value
    windows = sum(each["local_window_size"] > 0 for each in said)
    form = [_position(model, nodes, turning, "positions" in inputs)]
    form.append(_inputs(sum(not node.input[1] for node in nodes), len(nodes)))
    if cached != head:
        form.append(f"heads of {head} as {cached}")
    if model["n_kv_heads"] == 1:
        form.append("one head of keys")
    if model["qk_norm"] != "none":
        form.append("norms of queries and keys before it")
    if windows:
        form.append(f"window as attribute, {windows} of {len(said)} layers")
    if said[0]["softcap"]:
        form.append("soft cap as attribute")
    return form


def _inputs(packed: int, layers: int) -> str:
    if packed in (0, layers):
        return "one packed input" if packed else "queries, keys and values apart"
    return f"one packed input in {packed} of {layers} layers"


def _position(model: dict[str, Any], nodes: list[Any], turning: int, counted: bool) -> str:
    if any(len(node.input) > BIAS and node.input[BIAS] for node in nodes):
        return "ALiBi as its bias"
    if model["position"] != "rope":
        return "positions added to the embedding" if counted else "no positions"
    ropes = [model["rope"], *([model["local_rope"]] if model["local_rope"] else [])]
    part = "part of the head " if any(rope["width"] for rope in ropes) else ""
    if turning in (0, len(nodes)):
        return f"{part}turned {'inside' if turning else 'before it'}"
    return f"{part}turned inside, {turning} of {len(nodes)} layers"


def figures(shapes: dict[str, Any], families: Iterable[tuple[str, list[str]]]) -> str:
    """A row for each form that a family's shapes have."""
    rows = [
        "| family | how it is fused | shapes | logit error | greedy equal |",
        "|---|---|---|---|---|",
    ]
    for family, names in families:
        forms: dict[str, list[dict[str, Any]]] = {}
        for name in names:
            forms.setdefault("; ".join(shapes[name]["form"]), []).append(shapes[name])
        for form, found in forms.items():
            error, equal = max(e["error"] for e in found), min(e["equal"] for e in found)
            rows.append(f"| {family} | {form} | {len(found)} | {error:.1e} | {equal} of 64 |")
    return "\n".join(rows)


def measure_shape(shape: str, dice: Dice) -> dict[str, Any]:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        said, _ = save(shape, dice, Path(place) / "source")
        return measure_fused(said, Path(place))


def measure_all(dice: dict[str, Dice], processes: int | None = None) -> None:
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        found = dict(zip(dice, pool.map(measure_shape, dice, dice.values()), strict=True))
    lines = [f'"{shape}": {json.dumps(each)}' for shape, each in found.items()]
    FUSED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main() -> int:
    from tests.export.families.make_docs import dice_of, measured, write

    known = measured()
    measure_all({shape: dice_of(entry) for shape, entry in known["shapes"].items()})
    write(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
