"""The manifest of a finished folder: what a device reads before anything else."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

from edgeformer import __version__
from edgeformer.bundle import MANIFEST_FORMAT, manifest_json
from edgeformer.contract import STEP, Graph, TensorSpec
from edgeformer.export.measure import Measured, limits_of
from edgeformer.export.parity import Golden
from edgeformer.export.precisions import Precision
from edgeformer.export.source import Source, sha256
from edgeformer.export.tokenizer import Written
from edgeformer.manifest import Sampling
from edgeformer.manifest_embedding import Embedding
from edgeformer.manifest_quality import Pin, Quality
from edgeformer.nn.config import ModelConfig

FUSED_ONNXRUNTIME = "1.24"  # the first whose windows of attention are as wide as they say


def write_manifest(
    folder: Path,
    *,
    name: str,
    source: Source,
    config: ModelConfig,
    target: str,
    precision: Precision,
    runs: Sequence[str],
    embedding: Embedding | None,
    capacity: int,
    chunk: int,
    exact: bool,
    graphs: dict[str, Graph],
    text: Written | None,
    ends: Sequence[int],
    sampling: Sampling,
    quality: Quality | None,
    pinned: Sequence[Pin],
    golden: Golden,
) -> None:
    """Write manifest.json, last of all files; it has passed the check that a device applies.

    `runs`: the precisions of what may run the graphs.
    """
    manifest = {
        "format": MANIFEST_FORMAT,
        "name": name,
        "producer": {
            "edgeformer": __version__,
            "torch": str(torch.__version__),
            "onnx": onnx.__version__,
            "python": platform.python_version(),
        },
        "source": dataclasses.asdict(source),
        "model": config.to_json(),
        "target": target,
        "dialect": "ort" if STEP in graphs else precision.dialect,
        "precision": precision.name,
        "embedding": _plain(embedding),
        "capacity": capacity,
        "chunk": chunk,
        "exact_steps": exact,
        "min_onnxruntime": FUSED_ONNXRUNTIME if STEP in graphs else precision.oldest_onnxruntime,
        "graphs": {kind: _graph(graph) for kind, graph in graphs.items()},
        "files": _files(folder),
        "tokenizer": None if text is None else _plain(text.entry),
        "eos_token_ids": list(ends),
        "chat_templates": {} if text is None else text.chat_templates,
        "sampling": sampling._asdict(),
        "quality": _plain(quality),
        "pinned": _plain(tuple(pinned)),
        "golden": _golden(golden, runs),
    }
    (folder / "manifest.json").write_text(manifest_json(manifest), encoding="ascii")


def _golden(golden: Golden, runs: Sequence[str]) -> dict[str, Any]:
    """Limits are those of what can run the graphs: of fp32 ones, FP16 engines too."""
    found = Measured(golden.largest_logit_error, golden.largest_kl, golden.top1)
    limits = {name: limits_of(name, found) for name in runs}
    return {**dataclasses.asdict(golden), "top": _plain(golden.top), "limits": _plain(limits)}


def _graph(graph: Graph) -> dict[str, Any]:
    def tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
        return [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in specs]

    return {"file": graph.file, "inputs": tensors(graph.inputs), "outputs": tensors(graph.outputs)}


def _files(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.iterdir())
    }


def _plain(value: Any) -> Any:
    """Named tuples as JSON objects, however deep."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value
