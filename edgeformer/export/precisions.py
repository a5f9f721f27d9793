"""The precisions of a bundle: where each runs, and how a graph gets there from float32."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from edgeformer.errors import EdgeformerError
from edgeformer.export.dynamic import with_dynamic
from edgeformer.export.graphs import Traced
from edgeformer.export.nbits import with_blocks, with_eight_bits
from edgeformer.export.qdq import with_int8
from edgeformer.manifest import FUSED
from edgeformer.manifest_quality import Pin
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.quantize.eight import in_8_bits
from edgeformer.nn.quantize.int8_dynamic import dynamic_int8
from edgeformer.nn.quantize.int8_sensitivity import quantize_int8
from edgeformer.nn.quantize.mix import mixed


@dataclass(frozen=True)
class Quantized:
    """What is done to each graph, module (or its weight) -> why it stays in floats, and a word on
    how it was done."""

    rewrite: Callable[[Traced], Traced]
    left_out: dict[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def pins(self) -> tuple[Pin, ...]:
        return tuple(Pin(n.removesuffix(".weight"), why) for n, why in self.left_out.items())


# (decoder in float32, calibration ids [sequences, length], progress). The decoder is the same
# afterwards.
Quantize = Callable[[Decoder, torch.Tensor, Callable[[str], None]], Quantized]

OLDEST_ONNXRUNTIME = "1.10"  # the last one for Python 3.6


@dataclass(frozen=True)
class Precision:
    """`runs`: the precisions of what runs such graphs, each with limits in the manifest."""

    name: str
    targets: tuple[str, ...]
    runs: tuple[str, ...]
    dialect: str = "portable"
    oldest_onnxruntime: str = OLDEST_ONNXRUNTIME
    quantize: Quantize | None = None
    host: bool = True  # whether its embedding can be an input: a quantized one stands in the graph
    portable: bool = False  # whether it is in that dialect for a CPU too, unless another is asked


def _in_8_bits(
    decoder: Decoder,
    ids: torch.Tensor,
    progress: Callable[[str], None],
    block: int | None = None,
) -> Quantized:
    """Blocks of 64 or 32: as asked, or what is nearer to float32."""
    found = in_8_bits(decoder, ids, block, progress)
    return Quantized(lambda traced: with_eight_bits(traced, found), note=found.name)


def _mixed(decoder: Decoder, ids: torch.Tensor, progress: Callable[[str], None]) -> Quantized:
    """4 bits, and 8 for embedding, head and what bears 4 badly."""
    found = mixed(decoder, ids, progress=progress)
    return Quantized(lambda traced: with_blocks(traced, found.blocks), note=found.name)


def _dynamic(decoder: Decoder, ids: torch.Tensor, progress: Callable[[str], None]) -> Quantized:
    found = dynamic_int8(decoder, ids, progress=progress)
    return Quantized(lambda traced: with_dynamic(traced, found), found.left_out)


def _in_int8(decoder: Decoder, ids: torch.Tensor, progress: Callable[[str], None]) -> Quantized:
    found = quantize_int8(decoder, ids, progress=progress)
    return Quantized(lambda traced: with_int8(traced, found), found.left_out)


EVERYWHERE = ("jetson-nano", "jetson-orin-nano", "cpu")
PRECISIONS = {
    entry.name: entry
    for entry in (
        Precision("fp32", EVERYWHERE, ("fp32", "fp16")),
        Precision("fp16", EVERYWHERE, ("fp16",)),
        Precision("int8-qdq", ("jetson-orin-nano",), ("int8-qdq", "int8"), quantize=_in_int8),
        Precision(
            "int8-dynamic",
            EVERYWHERE,
            ("int8-dynamic",),
            quantize=_dynamic,
            host=False,
            portable=True,
        ),
        Precision("n8", ("cpu",), ("n8",), "ort", "1.23", _in_8_bits, host=False),
        Precision("n4", ("cpu",), ("n4",), "ort", "1.23", _mixed, host=False),
    )
}


def is_fused(dialect: str | None, precision: str, target: str, embedding: str) -> bool:
    """Whether the bundle holds the one graph of dialect `ort`; an error where it cannot be had.

    None asks for it where the target is a CPU; but not in int8-dynamic, whose portable graphs are
    the one quantized form for old releases.
    """
    why = ""
    if precision not in FUSED:
        why = f"precision {precision}, where it is for {', '.join(FUSED)}"
    elif embedding != "graph":
        why = "an embedding that is looked up outside"
    if dialect == "ort" and target != "cpu":
        why = f"target {target}; say --target cpu"
    if dialect == "ort" and why:
        raise EdgeformerError(f"dialect ort is not for {why}; leave out --dialect")
    if dialect is None and PRECISIONS[precision].portable:
        return False
    return dialect != "portable" and target == "cpu" and not why


def check_precision(name: str, target: str, embedding: str, block: int | None = None) -> Precision:
    """The entry, or an error where a bundle for this target cannot have it. `block`: inputs that
    share a scale, where that is a choice."""
    found = PRECISIONS[name]
    if target not in found.targets:
        raise EdgeformerError(
            f"precision {name} is for target {' or '.join(found.targets)}, not for {target}; say "
            f"--target {found.targets[0]}, or another --precision"
        )
    if embedding == "host" and not found.host:
        raise EdgeformerError(
            f"precision {name} keeps a quantized embedding in the graph; leave out --embedding host"
        )
    if block is None:
        return found
    if name != "n8":
        raise EdgeformerError(
            f"blocks of {block} are a choice of precision n8, not of {name}; leave out --block, or "
            "say --precision n8"
        )
    return dataclasses.replace(found, quantize=functools.partial(_in_8_bits, block=block))
