"""From a decoder to a bundle: trace, store, check, publish."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from tqdm import tqdm

from edgeformer import __version__
from edgeformer.bundle import MANIFEST_FORMAT, manifest_json
from edgeformer.contract import Graph
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export import parity
from edgeformer.export.graphs import assemble, trace
from edgeformer.export.operators import check_operators
from edgeformer.export.pinned import module_of
from edgeformer.export.publish import check_target, published
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.decoder import Decoder
from edgeformer.text import Tokenizer, load_tokenizer

END_OF_TEXT = "<|endoftext|>"
STAGES = 6


@dataclass(frozen=True)
class Source:
    """Where a decoder came from, as the manifest says it."""

    checkpoint: str
    sha256: str | None = None
    license: str | None = None


@dataclass(frozen=True)
class Exported:
    """What an export made."""

    path: Path
    bytes: int
    golden: parity.Golden


def export_decoder(
    decoder: Decoder,
    out_dir: Path | str,
    *,
    name: str,
    capacity: int | None = None,
    chunk: int | None = None,
    target: str = "jetson-nano",
    tokenizer_json: str | None = None,
    golden_prompt: str | Sequence[int] | None = None,
    sampling: dict[str, float] | None = None,
    source: Source | None = None,
    force: bool = False,
    progress: bool = False,
) -> Exported:
    """Write a bundle, or raise and leave no trace. The decoder is left in evaluation mode.

    capacity: max_positions if None; chunk: min(128, capacity). golden_prompt: text, where there is
    a tokenizer, or ids; a few fixed ids if None.
    """
    config = decoder.eval().config
    capacity = config.max_positions if capacity is None else capacity
    chunk = min(128, capacity) if chunk is None else chunk
    _check_sizes(decoder, capacity, chunk)
    check_target(Path(out_dir), force)
    with (
        published(Path(out_dir), force) as folder,
        tqdm(total=STAGES, disable=not progress, leave=False, delay=0.5) as bar,
    ):

        def stage(text: str) -> None:
            bar.set_description(text)
            bar.update()

        tokenizer = _write_tokenizer(folder, tokenizer_json, config.vocab_size)
        prompt_ids = _prompt_ids(golden_prompt, tokenizer, config.vocab_size, capacity)
        graphs = _write_graphs(folder, decoder, stage)
        steps = min(parity.MOST_STEPS, capacity - len(prompt_ids))
        stage("run PyTorch")
        ref = parity.reference(decoder, prompt_ids, steps, capacity, chunk)
        golden = parity.check_graphs(folder, graphs, config, ref, capacity, chunk, stage)
        manifest = {
            "format": MANIFEST_FORMAT,
            "name": name,
            "producer": _producer(),
            "source": dataclasses.asdict(source or Source(name)),
            "model": config.to_json(),
            "target": target,
            "dialect": "portable",
            "precision": "fp32",
            "capacity": capacity,
            "chunk": chunk,
            "min_onnxruntime": "1.10",
            "graphs": {kind: _graph_json(graph) for kind, graph in graphs.items()},
            "files": _files(folder),
            "tokenizer": _tokenizer_json(tokenizer),
            "eos_token_ids": _end_ids(tokenizer),
            "chat_template": None,
            "sampling": {"temperature": 0.0, "top_k": 0, "top_p": 1.0, **(sampling or {})},
            "quality": None,
            "golden": {
                **dataclasses.asdict(golden),
                "limits": {"logit_error": parity.LOGIT_ERROR},
            },
        }
        (folder / "manifest.json").write_text(manifest_json(manifest), encoding="ascii")
        total = sum(path.stat().st_size for path in folder.iterdir())
    return Exported(Path(out_dir), total, golden)


def _check_sizes(decoder: Decoder, capacity: int, chunk: int) -> None:
    config = decoder.config
    if not 2 <= capacity <= config.max_positions:
        raise EdgeformerError(
            f"capacity is {capacity}; it must be at least 2 and at most the model's max_positions, "
            f"{config.max_positions}"
        )
    if not 1 <= chunk <= capacity:
        raise EdgeformerError(
            f"chunk is {chunk}; it must be at least 1 and at most the capacity, {capacity}"
        )
    dtype = decoder.embedding.weight.dtype
    if dtype != torch.float32:
        raise EdgeformerError(f"the decoder is {dtype}; call decoder.float() before the export")


def _write_graphs(folder: Path, decoder: Decoder, stage: Any) -> dict[str, Graph]:
    graphs = {}
    with WeightsFile(folder) as weights:
        for kind in ("prefill", "decode"):
            stage(f"trace {kind}.onnx")
            traced = trace(decoder, kind)
            stage(f"store the weights of {kind}.onnx") if kind == "prefill" else None
            model = assemble(traced, list(weights.initializers(traced.weights)))
            findings = check_operators(model)
            if findings:
                lines = [
                    finding.text(lambda node: module_of(node, decoder)) for finding in findings
                ]
                more = f"\n  and {len(lines) - 10} more" if len(lines) > 10 else ""
                raise CheckFailed(
                    f"{traced.contract.file} cannot be parsed by TensorRT 8.2; write these with "
                    "other operators:\n  " + "\n  ".join(lines[:10]) + more
                )
            data = model.SerializeToString(deterministic=True)
            (folder / traced.contract.file).write_bytes(data)
            graphs[kind] = traced.contract
    return graphs


def _write_tokenizer(folder: Path, text: str | None, vocab_size: int) -> Tokenizer | None:
    if text is None:
        return None
    path = folder / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    tokenizer = load_tokenizer(str(path))
    if tokenizer.vocab_size > vocab_size:
        raise EdgeformerError(
            f"the tokenizer has {tokenizer.vocab_size} ids, but the model knows {vocab_size}"
        )
    return tokenizer


def _prompt_ids(
    prompt: str | Sequence[int] | None, tokenizer: Tokenizer | None, vocab_size: int, capacity: int
) -> list[int]:
    if prompt is None:
        ids = [7 * i % vocab_size for i in range(1, 1 + min(8, capacity // 2))]
    elif not isinstance(prompt, str):
        ids = list(prompt)
    elif tokenizer is None:
        raise EdgeformerError(
            "the golden prompt is text, but there is no tokenizer; give prompt_ids"
        )
    else:
        ids = tokenizer.encode(prompt)
    if not 1 <= len(ids) < capacity:
        raise EdgeformerError(
            f"the golden prompt has {len(ids)} tokens; it must have at least 1 and fewer than the "
            f"capacity, {capacity}"
        )
    if not 0 <= min(ids) <= max(ids) < vocab_size:
        raise EdgeformerError(
            f"the golden prompt has ids from {min(ids)} to {max(ids)}; "
            f"the vocabulary has {vocab_size}"
        )
    return ids


def _producer() -> dict[str, str]:
    return {
        "edgeformer": __version__,
        "torch": str(torch.__version__),
        "onnx": onnx.__version__,
        "python": platform.python_version(),
    }


def _graph_json(graph: Graph) -> dict[str, Any]:
    def tensors(specs: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in specs]

    return {"file": graph.file, "inputs": tensors(graph.inputs), "outputs": tensors(graph.outputs)}


def _files(folder: Path) -> dict[str, dict[str, Any]]:
    files = {}
    for path in sorted(folder.iterdir()):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.name] = {"bytes": path.stat().st_size, "sha256": digest}
    return files


def _tokenizer_json(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    if tokenizer is None:
        return None
    return {
        "kind": tokenizer.kind,
        "file": "tokenizer.json",
        "special_tokens": tokenizer.special_tokens,
        "bos_token_id": None,
    }


def _end_ids(tokenizer: Tokenizer | None) -> list[int]:
    """The token that ends a text in all tokenizers that we train; none, and streams run on."""
    special = {} if tokenizer is None else tokenizer.special_tokens
    return [special[END_OF_TEXT]] if END_OF_TEXT in special else []
