"""From a decoder to the graphs and weights.bin of a bundle."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import onnx
import torch

from edgeformer.contract import CPU_ONLY, PORTABLE, STEP, Graph
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export import weights as weights_file
from edgeformer.export.graphs import TORCH, Traced, assemble, skeleton, trace, trace_fused
from edgeformer.export.operators import check_operators
from edgeformer.export.pinned import module_of
from edgeformer.export.weights import WeightsFile
from edgeformer.manifest_embedding import Embedding
from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.pins import half_copy

SHOWN_FINDINGS = 10
BYTES = {"fp32": 4, "fp16": 2, "n4": 0.5}  # of a weight

Stage = Callable[[str], None]


def trace_all(
    config: ModelConfig,
    traced: Decoder | None,
    precision: str,
    host: bool,
    parameters: dict[str, torch.Tensor],
    stage: Stage,
    pins: Collection[str] = (),
    fused: int | None = None,
    exact: bool = False,
) -> list[Traced]:
    """The graphs of a bundle; their weights will be looked up in `parameters`. `traced` None: a
    skeleton is traced. `fused`: one graph of dialect `ort` over a cache of so many rows, `exact`
    where its steps of several tokens are to give the bits of steps of one."""
    if traced is None:
        decoder = skeleton(config, precision, pins)
    else:
        decoder = in_precision(traced, precision, pins)
    if fused is not None:
        stage(f"trace {STEP}.onnx")
        return [trace_fused(decoder, fused, parameters, exact)]
    drafts = []
    for kind in PORTABLE:
        stage(f"trace {kind}.onnx")
        drafts.append(trace(decoder, kind, parameters, host, pins))
    return drafts


def write_graphs(
    folder: Path,
    drafts: list[Traced],
    decoder: Decoder,
    precision: str,
    host: bool,
    stage: Stage,
) -> tuple[dict[str, Graph], Embedding | None]:
    """The graphs, and where the table lies that a `host` looks ids up in."""
    _check_room(folder, decoder, precision)
    graphs, table = {}, None
    with WeightsFile(folder) as weights:
        for draft in drafts:
            kind = draft.contract.file.removesuffix(".onnx")
            stage(f"store the weights of {kind}.onnx")
            model = assemble(draft, list(weights.initializers(draft.weights)))
            if precision not in CPU_ONLY and kind != STEP:
                _check_operators(model, draft.contract.file, decoder)
            data = model.SerializeToString(deterministic=True)
            (folder / draft.contract.file).write_bytes(data)
            graphs[kind] = draft.contract
        if host:
            rows = decoder.embedding.weight.detach().to(TORCH[precision]).cpu().numpy()
            # a tied head has stored it already, and equal bytes are one
            offset = weights.store(rows)
            table = Embedding(weights_file.FILE, offset, rows.dtype.name, *rows.shape)
    for graph in graphs.values():
        onnx.checker.check_model(folder / graph.file)
    return graphs, table


def in_precision(decoder: Decoder, precision: str, pins: Collection[str] = ()) -> Decoder:
    """What is traced; never the caller's own, where that means to change it. What is quantized is
    traced in float32 and rewritten."""
    return half_copy(decoder, pins) if precision == "fp16" else decoder


def _check_room(folder: Path, decoder: Decoder, precision: str) -> None:
    """Weights are nearly all of a bundle; an untied table of the embedding is one of them."""
    each = BYTES.get(precision, 1)  # of quantized ones at least about as much
    needed = sum(p.numel() for p in decoder.parameters()) * each
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise EdgeformerError(
            f"the weights need {needed / 1e6:.1f} MB, but `{folder.parent}` has {free / 1e6:.1f} "
            "MB free; free some or choose another -o BUNDLE"
        )


def _check_operators(model: onnx.ModelProto, file: str, decoder: Decoder) -> None:
    findings = check_operators(model)
    if not findings:
        return
    lines = [f.text(lambda node: module_of(node, decoder)) for f in findings[:SHOWN_FINDINGS]]
    if len(findings) > SHOWN_FINDINGS:
        lines.append(f"and {len(findings) - SHOWN_FINDINGS} more")
    raise CheckFailed(
        f"{file} is not for TensorRT 8.2; write these modules with other operators:\n  "
        + "\n  ".join(lines)
    )
