"""The pictures of a report, as SVG. The one module with matplotlib."""

import io
import re
import warnings
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from report import figures, ratios, style, tables
from report.runs import Case, Run, shown
from report.style import Look

WIDTH = 5.2  # inches: on a phone's 390 px the letters of 11 points are still 10 px high
ROW = 0.5
MOST_ROWS, MOST_LINES = 80, 12
INK = style.INK
Named = Tuple[str, Case, Look]


class Plot(NamedTuple):
    """An SVG file; `alt` says in words what it shows."""

    svg: str
    alt: str


def named(runs: Sequence[Run], wanted: Callable[[Case], bool]) -> List[Named]:
    """The cases that may be shown as results: finished, and not known to compute something else."""
    found = []
    for run in runs:
        for case in run.cases:
            right = case["summary"] is not None and case["parity"]["passed"] is not False
            if right and not case["error"] and wanted(case):
                found.append((tables.name_of(run, case, len(runs) > 1), case))
    looks = style.looks([case for _, case in found])
    return [(name, case, look) for (name, case), look in zip(found, looks)]


def latency(runs: Sequence[Run]) -> Optional[Plot]:
    """Median, p95 and p99 of the time per token, one row a case."""
    found = named(runs, lambda case: True)
    cases = found[:MOST_ROWS]
    if not cases:
        return None
    told = []

    def draw(axes: Any) -> None:
        for row, (name, case, look) in enumerate(cases):
            token = case["summary"]["token_s"]
            at = [1e3 * token[key] for key in ("median", "p95", "p99")]
            axes.plot([at[0], at[2]], [row, row], color=look.colour, linestyle=look.line)
            for x, marker in zip(at, "o|x"):
                filled = look.colour if look.filled else "none"
                axes.plot([x], [row], marker=marker, color=look.colour, markerfacecolor=filled,
                          markersize=8, markeredgewidth=2, linestyle="none")  # fmt: skip
            values = " · ".join(figures.digits(x) for x in at)
            _above(axes, row, name, f"{values} ms")
            told.append(f"{name}: median {at[0]:.3g}, p95 {at[1]:.3g}, p99 {at[2]:.3g} ms")
        _rows(axes, len(cases), "ms per token: ● median, | p95, × p99" + _of(len(found), MOST_ROWS))
        _log(axes.xaxis, axes.set_xscale)

    svg = _drawn([ROW * len(cases) + 0.8], [draw])
    return Plot(svg, "Time per token of each case. " + ". ".join(told))


def roofline(runs: Sequence[Run]) -> Optional[Plot]:
    """The share of the bandwidth's ceiling that each case reaches."""
    found = named(runs, lambda case: case["summary"]["roofline_share"] is not None)
    cases = found[:MOST_ROWS]
    if not cases:
        return None

    def draw(axes: Any) -> None:
        for row, (name, case, look) in enumerate(cases):
            percent = 100 * case["summary"]["roofline_share"]
            hatch = None if look.filled else "///"
            axes.barh([row], [percent], height=0.36, color=look.colour if look.filled else "none",
                      edgecolor=look.colour, hatch=hatch)  # fmt: skip
            _above(axes, row, name, f"{percent:.3g} %")
        _rows(axes, len(cases), "% of what the bandwidth allows" + _of(len(found), MOST_ROWS))
        axes.axvline(100, color=INK, linestyle=":")
        axes.set_xlim(0, max(105, axes.get_xlim()[1]))

    told = [f"{n}: {100 * case['summary']['roofline_share']:.3g} %" for n, case, _ in cases]
    svg = _drawn([ROW * len(cases) + 0.8], [draw])
    return Plot(svg, "Share of the memory-bandwidth roofline. " + ". ".join(told))


def backends(found: List[ratios.Ratio]) -> Optional[Plot]:
    """Ratios with their intervals, one row a comparison; 1 is no difference."""
    told = [one for one in found if one.low is not None and one.high is not None]
    rows = told[:MOST_ROWS]
    if not rows:
        return None

    def draw(axes: Any) -> None:
        for row, one in enumerate(rows):
            colour = style.VERMILLION if one.ratio is not None else INK
            axes.plot([one.low, one.high], [row, row], color=colour, marker="|", markersize=10)
            if one.ratio is not None:
                axes.plot([one.ratio], [row], color=colour, marker="o", linestyle="none")
            name = f"{shown(one.b['name'])} / {_without_model(one.a)}"
            value = "no difference" if one.ratio is None else f"{one.ratio:.3f}"
            _above(axes, row, name, value)
        axes.axvline(1, color=INK, linestyle=":")
        _rows(axes, len(rows), "time of the first / time of the second" + _of(len(told), MOST_ROWS))
        _log(axes.xaxis, axes.set_xscale)

    svg = _drawn([ROW * len(rows) + 0.8], [draw])
    return Plot(svg, "Ratios between backends. " + ". ".join(map(ratios.in_words, rows)))


def size_and_speed(runs: Sequence[Run]) -> Optional[Plot]:
    """Bytes of the weights against tokens per second; a model has one line through its cases."""
    cases = named(runs, lambda case: case["model"]["weights_bytes"] > 0)
    if not cases:
        return None

    def draw(axes: Any) -> None:
        for _, same in _by_model(cases):
            line = sorted(_point(case) for _, case, _ in same)
            axes.plot(*zip(*line), color=INK, linewidth=0.8, alpha=0.5)
        for name, look in _once(cases, lambda c: f"{c['precision']}, {_who(c)}"):
            points = [_point(c) for _, c, other in cases if other == look]
            _dots(axes, points, look, name)
        axes.set_xlabel("MB of weights")
        axes.set_ylabel("tokens/s (median)")
        _log(axes.xaxis, axes.set_xscale)
        _log(axes.yaxis, axes.set_yscale)
        axes.grid(True)
        _legend(axes)

    told = [f"{name}: {_point(c)[0]:.3g} MB, {_point(c)[1]:.3g} tokens/s" for name, c, _ in cases]
    svg = _drawn([4.2], [draw])
    return Plot(svg, "Size of the weights against tokens per second. " + ". ".join(told))


def rows_in_use(runs: Sequence[Run]) -> Optional[Plot]:
    """Time per token by context length, one panel a model."""
    cases = named(runs, lambda case: len(figures.parts(case, "rows_s")) > 1)
    models = _by_model(cases)
    told = []

    def panel(model: str, same: List[Named]) -> Callable[[Any], None]:
        def draw(axes: Any) -> None:
            for name, case, look in same[:MOST_LINES]:
                points = _by_rows(case)
                filled = look.colour if look.filled else "none"
                axes.plot(*zip(*points), color=look.colour, marker=look.marker, label=name,
                          linestyle=look.line, markerfacecolor=filled)  # fmt: skip
                told.append(
                    f"{name}: {points[0][1]:.3g} ms at {points[0][0]:.0f} rows, "
                    f"{points[-1][1]:.3g} ms at {points[-1][0]:.0f}"
                )
            axes.set_title(shown(model) + _of(len(same), MOST_LINES), loc="left")
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
            axes.set_ylim(bottom=0)
            axes.set_xlabel("rows in use")
            axes.set_ylabel("ms per token")
            axes.grid(True)
            _legend(axes)

        return draw

    if not models:
        return None
    heights = [3.0 + 0.25 * min(len(same), MOST_LINES) for _, same in models]
    svg = _drawn(heights, [panel(model, same) for model, same in models])
    return Plot(svg, "Time per token against the rows in use. " + ". ".join(told))


def memory(runs: Sequence[Run]) -> Optional[Plot]:
    """Free memory while each run went on; a band of shade where another case began."""
    shown_runs = [run for run in runs if len(_free(run)) > 1]
    if not shown_runs:
        return None
    told = []

    def panel(run: Run) -> Callable[[Any], None]:
        points = _free(run)
        low = min(points, key=lambda point: point[1])
        told.append(
            f"Run {run.number}: from {points[0][1]:.0f} MB down to {low[1]:.0f} MB after "
            f"{low[0]:.0f} s, at the end {points[-1][1]:.0f} MB"
        )

        def draw(axes: Any) -> None:
            for start, stop in _every_other_case(run):
                axes.axvspan(start, stop, color=INK, alpha=0.07, linewidth=0)
            axes.plot(*zip(*points), color=style.BLUE)
            axes.plot(*low, marker="v", color=style.VERMILLION, linestyle="none")
            axes.annotate(f"lowest: {low[1]:.0f} MB", low, textcoords="offset points",
                          xytext=(0, -16), ha="center")  # fmt: skip
            axes.margins(y=0.25)
            axes.set_title(f"run {run.number}", loc="left")
            axes.set_xlabel("seconds since the run began")
            axes.set_ylabel("MB free")
            axes.grid(True)

        return draw

    svg = _drawn([2.8] * len(shown_runs), [panel(run) for run in shown_runs])
    return Plot(svg, "Free memory of the machine over time. " + ". ".join(told))


def _free(run: Run) -> List[Tuple[float, float]]:
    known = [s for s in run.document["samples"] if s["available_bytes"] is not None]
    return [(sample["t_s"], sample["available_bytes"] / 1e6) for sample in known]


def _every_other_case(run: Run) -> List[Tuple[float, float]]:
    """(from, to) in seconds of every second stretch of samples in which one case ran."""
    spans = []  # type: List[List[Any]]
    for sample in run.document["samples"]:
        if not spans or spans[-1][2] != sample["case"]:
            spans.append([sample["t_s"], sample["t_s"], sample["case"]])
        spans[-1][1] = sample["t_s"]
    return [(start, stop) for start, stop, case in spans[1::2] if case is not None]


def _by_rows(case: Case) -> List[Tuple[float, float]]:
    parts = [part for part in figures.parts(case, "rows_s") if part.isdigit()]
    return [(max(1, int(p)), 1e3 * case["summary"]["rows_s"][p]["median"]) for p in parts]


def _by_model(cases: List[Named]) -> List[Tuple[str, List[Named]]]:
    names = list(dict.fromkeys(case["model"]["name"] for _, case, _ in cases))
    return [(name, [one for one in cases if one[1]["model"]["name"] == name]) for name in names]


def _once(cases: List[Named], key: Callable[[Case], str]) -> List[Tuple[str, Look]]:
    """One entry of a legend for each look, in the order of the cases."""
    found = {}  # type: dict[Look, str]
    for _, case, look in cases:
        found.setdefault(look, key(case))
    return [(name, look) for look, name in found.items()]


def _without_model(case: Case) -> str:
    name, model = shown(case["name"]), shown(case["model"]["name"])
    return name[len(model) :].strip() if name.startswith(model + " ") else name


def _who(case: Case) -> str:
    return shown(style.engine_of(case))


def _point(case: Case) -> Tuple[float, float]:
    return case["model"]["weights_bytes"] / 1e6, case["summary"]["tokens_per_s"]["median"]


def _dots(axes: Any, points: List[Tuple[float, float]], look: Look, name: str) -> None:
    filled = look.colour if look.filled else "none"
    axes.plot(*zip(*points), color=look.colour, marker=look.marker, linestyle="none", label=name,
              markerfacecolor=filled, markeredgewidth=1.6, markersize=8)  # fmt: skip


def _above(axes: Any, row: int, name: str, value: str) -> None:
    """A row's name on the left and its value on the right, above what is drawn in it."""
    place = axes.get_yaxis_transform()
    axes.text(0, row - 0.3, _cut(name, 64 - len(value)), transform=place, va="center", size=10)
    axes.text(1, row - 0.3, value, transform=place, va="center", ha="right", size=10)


def _of(count: int, most: int) -> str:
    return f" (the first {most} of {count})" if count > most else ""


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _rows(axes: Any, count: int, label: str) -> None:
    axes.set_ylim(count - 0.5, -0.7)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.set_xlabel(label)


def _log(axis: Any, set_scale: Callable[[str], None]) -> None:
    """A logarithmic scale with plain numbers, at 1, 2 and 5 where the range is short."""
    set_scale("log")
    low, high = sorted(axis.get_view_interval())
    short = low <= 0 or high / low < 100
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}" if x >= 1 else f"{x:.3g}"))


def _legend(axes: Any) -> None:
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), borderaxespad=0, handlelength=3)


def _drawn(heights: List[float], panels: List[Callable[[Any], None]]) -> str:
    with matplotlib.rc_context(style.settings()), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        made = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        for axes, draw in zip(made[:, 0], panels):
            draw(axes)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()


def inline(svg: str, name: str) -> str:
    """An SVG file as part of a page: no header, no names of other hosts, identifiers of its own,
    and the page's colour in place of INK. Text between tags is left as it is."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)

    def tag(match: Any) -> str:
        text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", match.group())
        text = text.replace("xlink:href", "href").replace(INK, "currentColor")
        text = re.sub(r'\bid="', f'id="{name}-', text)
        text = text.replace("url(#", f"url(#{name}-")
        return re.sub(r'href="#', f'href="#{name}-', text)

    return re.sub(r"<[^>]+>", tag, svg)
