"""What speed costs in quality: KL from float32 against tokens per second."""

from typing import Any, List, Optional, Sequence, Tuple

from report import drawing, style
from report.drawing import INK, Plot
from report.plots import Named, dots, named
from report.runs import Run, shown

LEAST = 1e-4  # nats: below it rounding decides, and float32 itself has none


def quality_and_speed(runs: Sequence[Run]) -> Optional[Plot]:
    """Cases with a KL, where two or more lose something: faster is right, truer is down."""
    cases = named(runs, lambda case: bool(case["model"]["quality"]))
    if sum(_at(one)[1] > LEAST for one in cases) < 2:
        return None
    beaten = outdone([_at(one) for one in cases])

    def draw(axes: Any) -> None:
        best = sorted(_at(one) for one, lost in zip(cases, beaten) if not lost)
        axes.plot(*zip(*best), color=INK, linewidth=0.8, alpha=0.5)
        for one in cases:
            _, case, look = one
            dots(axes, [_at(one)], look, f"{style.engine_of(case)} {shown(case['precision'])}")
        axes.set_xlabel("tokens/s (median)")
        axes.set_ylabel(f"KL from float32, nats ({LEAST:g}: that or less)")
        drawing.log(axes.yaxis, axes.set_yscale)
        axes.grid(True)
        drawing.legend(axes)

    told = [f"{one[0]}: {_at(one)[0]:.3g} tokens/s, KL {_at(one)[1]:.2g}" for one in cases]
    lost = [one[0] for one, is_lost in zip(cases, beaten) if is_lost]
    last = f"Outdone in both: {', '.join(lost)}" if lost else "None is outdone in both"
    svg = drawing.drawn([4.2 + 0.2 * len(cases)], [draw])
    return Plot(svg, "Quality against speed. " + ". ".join([*told, last]))


def outdone(points: Sequence[Tuple[float, float]]) -> List[bool]:
    """Of (speed, loss): whether another one is faster and loses less."""
    return [any(speed > s and loss < d for speed, loss in points) for s, d in points]


def _at(one: Named) -> Tuple[float, float]:
    case = one[1]
    return case["summary"]["tokens_per_s"]["median"], max(case["model"]["quality"]["kl"], LEAST)
