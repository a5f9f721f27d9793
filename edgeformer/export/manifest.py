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
from edgeformer.contract import Graph, TensorSpec
from edgeformer.export.measure import LIMITS
from edgeformer.export.parity import Golden
from edgeformer.export.recipe import Sampling
from edgeformer.export.source import Source, sha256
from edgeformer.export.tokenizer import Written
from edgeformer.manifest_embedding import Embedding
from edgeformer.manifest_text import TokenizerEntry
from edgeformer.nn.config import ModelConfig

OLDEST_ONNXRUNTIME = "1.10"  # the last one for Python 3.6


def write_manifest(
    folder: Path,
    *,
    name: str,
    source: Source,
    config: ModelConfig,
    target: str,
    precision: str,
    embedding: Embedding | None,
    capacity: int,
    chunk: int,
    graphs: dict[str, Graph],
    text: Written | None,
    ends: Sequence[int],
    sampling: Sampling,
    golden: Golden,
) -> None:
    """Write manifest.json, last of all files; it has passed the check that a device applies."""
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
        "dialect": "portable",
        "precision": precision,
        "embedding": None if embedding is None else embedding._asdict(),
        "capacity": capacity,
        "chunk": chunk,
        "min_onnxruntime": OLDEST_ONNXRUNTIME,
        "graphs": {kind: _graph(graph) for kind, graph in graphs.items()},
        "files": _files(folder),
        "tokenizer": None if text is None else _tokenizer(text.entry),
        "eos_token_ids": list(ends),
        "chat_templates": {} if text is None else text.chat_templates,
        "sampling": dataclasses.asdict(sampling),
        "quality": None,
        "golden": _golden(golden, precision),
    }
    (folder / "manifest.json").write_text(manifest_json(manifest), encoding="ascii")


def _golden(golden: Golden, precision: str) -> dict[str, Any]:
    """Limits are those of what can run the graphs: of fp32 ones, FP16 engines too."""
    runs = ("fp32", "fp16") if precision == "fp32" else (precision,)
    limits = {name: LIMITS[name]._asdict() for name in runs}
    return {**dataclasses.asdict(golden), "top": golden.top._asdict(), "limits": limits}


def _graph(graph: Graph) -> dict[str, Any]:
    def tensors(specs: Sequence[TensorSpec]) -> list[dict[str, Any]]:
        return [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in specs]

    return {"file": graph.file, "inputs": tensors(graph.inputs), "outputs": tensors(graph.outputs)}


def _files(folder: Path) -> dict[str, dict[str, Any]]:
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.iterdir())
    }


def _tokenizer(entry: TokenizerEntry) -> dict[str, Any]:
    identity = None if entry.identity is None else entry.identity._asdict()
    return {**entry._asdict(), "identity": identity}
