"""What memory did while each run went on, as SVG."""

from bisect import bisect
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from matplotlib.ticker import FuncFormatter

from edgeformer.bench.measure import thinned
from report import drawing, style
from report.drawing import INK, Plot
from report.plots import MOST_LINES, Named, named
from report.runs import Run

Points = List[Tuple[float, float]]  # seconds since the run began, MB
Sample = Dict[str, Any]
Panel = Tuple[float, Callable[[Any], None], str]  # inches, what draws it, the same in words
BREAK = (float("nan"), float("nan"))  # where a line ends and goes on elsewhere


def memory(runs: Sequence[Run]) -> Optional[Plot]:
    """Free memory of the machine and that of each case's process; a band of shade where another
    case began."""
    panels = []  # type: List[Panel]
    for run in runs:
        if len(_free(run)) > 1:
            panels.append(_machine(run))
        cases = named([run], lambda case, run=run: len(_rss(run, case["name"])) > 1)
        if cases:
            panels.append(_processes(run, cases))
    if not panels:
        return None
    svg = drawing.drawn([panel[0] for panel in panels], [panel[1] for panel in panels])
    return Plot(svg, "Memory over time. " + ". ".join(panel[2] for panel in panels))


def _machine(run: Run) -> Panel:
    points = _free(run)
    low = min(points, key=lambda point: point[1])

    def draw(axes: Any) -> None:
        axes.plot(*zip(*points), color=style.BLUE)
        axes.plot(*low, marker="v", color=style.VERMILLION, linestyle="none")
        axes.margins(y=0.15)
        axes.set_title(f"run {run.number}, lowest: {low[1]:,.0f} MB", loc="left")
        _finish(axes, run, "MB free")

    told = (
        f"Free memory of the machine in run {run.number}: from {points[0][1]:.0f} MB down to "
        f"{low[1]:.0f} MB after {low[0]:.0f} s, at the end {points[-1][1]:.0f} MB"
    )
    return 2.8, draw, told


def _processes(run: Run, cases: List[Named]) -> Panel:
    drawn = cases[:MOST_LINES]
    most = {name: max(mb for _, mb in _rss(run, case["name"])) for name, case, _ in drawn}

    def draw(axes: Any) -> None:
        for name, case, look in drawn:
            axes.plot(*zip(*_lines(run, case["name"])), color=look.colour, linestyle=look.line,
                      marker=look.marker, markevery=0.15, markersize=4,
                      markerfacecolor=look.colour if look.filled else "none",
                      label=drawing.cut(name, 50))  # fmt: skip
        axes.set_title(f"run {run.number}" + drawing.of(len(cases), MOST_LINES), loc="left")
        _finish(axes, run, "MB of the process")
        axes.set_ylim(0, 1.1 * axes.dataLim.y1)
        drawing.legend(axes)

    told = ", ".join(f"{name} up to {mb:.0f} MB" for name, mb in most.items())
    return 3.0 + 0.25 * len(drawn), draw, f"Memory of the processes in run {run.number}: {told}"


def _finish(axes: Any, run: Run, label: str) -> None:
    for start, stop in _every_other_case(run):
        axes.axvspan(start, stop, color=INK, alpha=0.07, linewidth=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.set_xlabel("seconds since the run began")
    axes.set_ylabel(label)
    axes.grid(True)


def _samples(run: Run) -> List[Sample]:
    """As many as a picture can show; `bench` keeps no more."""
    return thinned(run.document["samples"])


def _free(run: Run) -> Points:
    known = [s for s in _samples(run) if s["available_bytes"] is not None]
    return [(sample["t_s"], sample["available_bytes"] / 1e6) for sample in known]


def _rss(run: Run, name: str) -> Points:
    """Documents of older versions have none."""
    own = [sample for sample in _samples(run) if sample["case"] == name]
    known = [sample for sample in own if sample.get("rss_bytes") is not None]
    return [(sample["t_s"], sample["rss_bytes"] / 1e6) for sample in known]


def _lines(run: Run, name: str) -> Points:
    """The same, broken where another process ran between two samples."""
    starts = sorted(turn["at_s"] for case in run.cases for turn in case["rounds"])
    points = []  # type: Points
    for point in _rss(run, name):
        if points and bisect(starts, points[-1][0]) != bisect(starts, point[0]):
            points.append(BREAK)
        points.append(point)
    return points


def _every_other_case(run: Run) -> Points:
    """(from, to) in seconds of every second stretch of samples in which one case ran."""
    spans = []  # type: List[List[Any]]
    for sample in _samples(run):
        if not spans or spans[-1][2] != sample["case"]:
            spans.append([sample["t_s"], sample["t_s"], sample["case"]])
        spans[-1][1] = sample["t_s"]
    return [(start, stop) for start, stop, case in spans[1::2] if case is not None]
