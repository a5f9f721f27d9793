"""The quality gate: a precision that loses more than its thresholds allow is not published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgeformer.errors import CheckFailed
from edgeformer.export.quality import Quality
from edgeformer.export.reading import Reading
from edgeformer.manifest_quality import Measured, Thresholds
from edgeformer.manifest_quality import Quality as Table

# Perplexity's loss, mean KL and top-1. Those of fp16 are ten times and more what SmolLM2-135M and
# the demo model lose; the others say from where on a user should know.
THRESHOLDS = {
    "fp16": Thresholds(0.001, 0.002, 0.98),
    "int8-qdq": Thresholds(0.015, 0.03, 0.9),
    "int8-dynamic": Thresholds(0.015, 0.03, 0.9),
    "n8": Thresholds(0.003, 0.006, 0.93),
    "n4": Thresholds(0.03, 0.06, 0.85),
}
HEAD = f"{'precision':<14} {'perplexity':>11} {'change':>9} {'KL, nats':>9} {'top-1':>7}  allowed"


@dataclass(frozen=True)
class Gate:
    """What a user sets: thresholds in place of a precision's own, and whether to publish anyway."""

    max_loss: float | None = None
    max_kl: float | None = None
    min_top1: float | None = None
    allow: bool = False

    def thresholds(self, precision: str) -> Thresholds:
        own = THRESHOLDS[precision]
        return Thresholds(
            own.loss if self.max_loss is None else self.max_loss,
            own.kl if self.max_kl is None else self.max_kl,
            own.top1 if self.min_top1 is None else self.min_top1,
        )


def passed(found: Mapping[str, Quality], reading: Reading, gate: Gate) -> Table:
    """The table for the manifest. Raises CheckFailed with it where a precision loses too much."""
    rows, missed = {}, []
    for precision, quality in found.items():
        limits = gate.thresholds(precision)
        wrong = misses(quality, limits)
        missed += [f"{precision}: {text}" for text in wrong]
        rows[precision] = Measured(
            float(f"{quality.perplexity:.6g}"),
            float(f"{max(0.0, quality.kl):.4g}"),
            float(f"{quality.top1:.6g}"),
            limits,
            bool(wrong),
        )
    one = next(iter(found.values()))
    table = Table(
        reading.text,
        one.tokens,
        max(map(len, reading.windows)),
        float(f"{one.reference_perplexity:.6g}"),
        rows,
    )
    if missed and not gate.allow:
        raise CheckFailed(
            "\n".join(
                [
                    *lines(table, published=False),
                    f"{'; '.join(missed)}; nothing was written. Choose another --precision, or "
                    "publish it all the same: --allow-quality-loss",
                ]
            )
        )
    return table


def misses(quality: Quality, limits: Thresholds) -> list[str]:
    """The thresholds that are missed, in words. What is no number misses all."""
    found = []
    if not quality.loss <= limits.loss:
        found.append(f"perplexity {quality.loss:+.2%}, allowed {limits.loss:+.2%}")
    if not quality.kl <= limits.kl:
        found.append(f"KL {quality.kl:.4g} nats, allowed {limits.kl:g}")
    if not quality.top1 >= limits.top1:
        found.append(f"top-1 {quality.top1:.1%}, at least {limits.top1:.1%} is wanted")
    return found


def lines(table: Table, published: bool = True) -> Sequence[str]:
    """The table as a person reads it."""
    missed = " -- MISSED, and allowed" if published else " -- MISSED"
    where = "text that the model wrote itself" if table.text is None else table.text.name
    made = [
        f"{table.tokens} tokens of {where}, windows of {table.window} that begin empty; PyTorch in "
        f"float32: perplexity {table.perplexity:.5g}",
        HEAD,
    ]
    for name, row in table.precisions.items():
        change, limits = row.perplexity / table.perplexity - 1, row.thresholds
        made.append(
            f"{name:<14} {row.perplexity:11.5g} {change:+9.2%} {row.kl:9.5f} {row.top1:7.1%}  "
            f"{limits.loss:+.2%}, KL {limits.kl:g}, top-1 {limits.top1:.0%}"
            + (missed if row.allowed else "")
        )
    return made
