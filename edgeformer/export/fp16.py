"""FP16 in an export: what stays FP32 in FP16 graphs, and in the FP16 engines of FP32 graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgeformer.export.audit import Unfit, audit
from edgeformer.export.gate import Gate, misses, passed
from edgeformer.export.graphs import Traced
from edgeformer.export.memory import give_back
from edgeformer.export.pinned import name_nodes
from edgeformer.export.reading import Reading
from edgeformer.manifest_quality import Pin, Quality
from edgeformer.nn.decoder import Decoder


@dataclass(frozen=True)
class InFp16:
    """`measured`: None without a text. `refused`: why FP32 graphs give no FP16 engine, or ""."""

    pins: tuple[Pin, ...] = ()
    measured: Quality | None = None
    refused: str = ""

    @property
    def modules(self) -> tuple[str, ...]:
        return tuple(pin.module for pin in self.pins)


def in_fp16(
    decoder: Decoder,
    precision: str,
    host: bool,
    reading: Reading | None,
    golden: Sequence[int],
    gate: Gate,
    progress: Callable[[str], None],
) -> InFp16:
    """Audit a decoder on the text, or where there is none on its golden run alone.

    Raises CheckFailed where these graphs are not to be published. FP32 graphs always may: they
    serve FP32 engines and a CPU; what FP16 cannot hold is then refused when an engine is built.
    """
    windows = [] if reading is None else reading.windows
    give_back()
    try:
        found = audit(decoder, windows, [golden], progress)
    except Unfit as error:
        if precision == "fp32":
            return InFp16(refused=error.reason)
        raise
    give_back()
    if precision == "fp16" and host and "embedding" in (pin.module for pin in found.pins):
        (why,) = (pin.why for pin in found.pins if pin.module == "embedding")
        raise Unfit(f"the embedding has {why}, and outside the graphs it is FP16 as they are")
    if reading is None or precision not in ("fp32", "fp16"):  # others have a row of their own
        return InFp16(found.pins)
    wrong = misses(found.quality, gate.thresholds("fp16"))
    if wrong and precision == "fp32" and not gate.allow:
        return InFp16(found.pins, refused="; ".join(wrong))
    return InFp16(found.pins, passed({"fp16": found.quality}, reading, gate))


def name_pinned(drafts: Sequence[Traced], decoder: Decoder, pins: Sequence[str]) -> None:
    """Mark in FP32 graphs the nodes that an FP16 engine keeps in FP32."""
    for draft in drafts:
        name_nodes(draft.nodes, draft.weights, decoder, pins)
