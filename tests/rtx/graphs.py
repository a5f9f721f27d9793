"""Graphs as the exporter writes them, without the golden run of a whole export; and profiles."""

from __future__ import annotations

from pathlib import Path

import torch

from edgeformer.contract import Graph
from edgeformer.engines.needs import SCORED_ROWS
from edgeformer.engines.record import Span
from edgeformer.engines.wanted import LEAST_TOKENS, Asked, Wanted, shapes
from edgeformer.export.graphs import TORCH, Traced, assemble, skeleton, trace
from edgeformer.export.qdq import with_int8
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.int8_sensitivity import quantize_int8
from tests.rtx.library import Shapes

KINDS = ("prefill", "decode")
PRECISIONS = ("fp32", "fp16", "int8")  # of stored graphs: their own types are those of the engines
WORKSPACE = 256  # MiB


def write_graphs(decoder: Decoder, folder: Path, precision: str = "fp32") -> dict[str, Graph]:
    """Both graphs of a decoder, which becomes of this precision, over one weights.bin."""
    folder.mkdir()
    graphs = {}
    with WeightsFile(folder) as weights:
        for draft in _drafts(decoder, precision):
            model = assemble(draft, list(weights.initializers(draft.weights)))
            (folder / draft.contract.file).write_bytes(model.SerializeToString(deterministic=True))
            graphs[draft.contract.file.removesuffix(".onnx")] = draft.contract
    return graphs


def _drafts(decoder: Decoder, precision: str) -> list[Traced]:
    if precision != "int8":
        decoder = decoder.to(TORCH[precision])
        return [trace(decoder, kind) for kind in KINDS]
    generator = torch.Generator().manual_seed(0)
    length = min(32, decoder.config.max_positions)
    ids = torch.randint(decoder.config.vocab_size, (64 // length, length), generator=generator)
    found = quantize_int8(decoder, ids, smooth=False, budget=float("inf"))
    like, weights = skeleton(decoder.config), decoder.state_dict()
    return [with_int8(trace(like, kind, weights), found) for kind in KINDS]


def split(graphs: dict[str, Graph], capacity: int, chunk: int) -> dict[str, Shapes]:
    """Profiles of two engines: one token, and chunks; a cache of one size."""
    tokens = {"decode": Span(1, 1), "prefill": Span(min(LEAST_TOKENS, chunk), chunk)}
    return _profiles(graphs, "split", tokens, (capacity,))


def shared(graphs: dict[str, Graph], capacity: int, chunk: int) -> dict[str, Shapes]:
    """The profile of one engine for both, and a cache that grows."""
    past = (max(1, capacity // 4), capacity)
    return _profiles(graphs, "shared", {"prefill": Span(1, chunk)}, past)


def _profiles(
    graphs: dict[str, Graph], layout: str, tokens: dict[str, Span], past: tuple[int, ...]
) -> dict[str, Shapes]:
    ranges = {kind: (span, Span(1, min(SCORED_ROWS, span.most))) for kind, span in tokens.items()}
    asked = Asked("fp32", past, (WORKSPACE,), ())
    found = Wanted("key", layout, asked, True, "float32", ranges, {}, {})
    return {kind: shapes(graphs[kind], found, kind) for kind in ranges}
