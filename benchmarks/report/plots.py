"""The pictures of a report, as SVG."""

import re
from typing import Any, Callable, List, Optional, Sequence, Tuple

from report import drawing, figures, ratios, style, tables
from report.drawing import INK, Plot
from report.runs import Case, Run, shown
from report.style import Look

ROW = 0.5
MOST_ROWS, MOST_LINES = 80, 12
Named = Tuple[str, Case, Look]


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
            drawing.above(axes, row, name, f"{values} ms")
            told.append(f"{name}: median {at[0]:.3g}, p95 {at[1]:.3g}, p99 {at[2]:.3g} ms")
        drawing.rows(
            axes,
            len(cases),
            "ms per token: ● median, | p95, × p99" + drawing.of(len(found), MOST_ROWS),
        )
        drawing.log(axes.xaxis, axes.set_xscale)

    svg = drawing.drawn([ROW * len(cases) + 0.8], [draw])
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
            hatch, inside = (None, look.colour) if look.filled else ("///", "none")
            axes.barh([row + 0.1], [percent], height=0.32, color=inside, edgecolor=look.colour,
                      hatch=hatch)  # fmt: skip
            drawing.above(axes, row, name, f"{percent:.3g} %")
        drawing.rows(
            axes, len(cases), "% of what the bandwidth allows" + drawing.of(len(found), MOST_ROWS)
        )
        axes.axvline(100, color=INK, linestyle=":")
        axes.set_xlim(0, max(130, 1.3 * axes.dataLim.x1))

    told = [f"{n}: {100 * case['summary']['roofline_share']:.3g} %" for n, case, _ in cases]
    svg = drawing.drawn([ROW * len(cases) + 0.8], [draw])
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
            drawing.above(axes, row, name, value)
        axes.axvline(1, color=INK, linestyle=":")
        drawing.rows(
            axes,
            len(rows),
            "time of the first / time of the second" + drawing.of(len(told), MOST_ROWS),
        )
        drawing.log(axes.xaxis, axes.set_xscale)

    svg = drawing.drawn([ROW * len(rows) + 0.8], [draw])
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
        for name, look in _once(cases, lambda c: f"{shown(c['precision'])}, {_who(c)}"):
            points = [_point(c) for _, c, other in cases if other == look]
            dots(axes, points, look, name)
        axes.set_xlabel("MB of weights")
        axes.set_ylabel("tokens/s (median)")
        drawing.log(axes.xaxis, axes.set_xscale)
        drawing.log(axes.yaxis, axes.set_yscale)
        axes.grid(True)
        drawing.legend(axes)

    told = [f"{name}: {_point(c)[0]:.3g} MB, {_point(c)[1]:.3g} tokens/s" for name, c, _ in cases]
    svg = drawing.drawn([4.2], [draw])
    return Plot(svg, "Size of the weights against tokens per second. " + ". ".join(told))


def ladder(runs: Sequence[Run]) -> Optional[Plot]:
    """Parameters against the time per token: a panel for each run, as runs are of other prompts,
    and in it a line for each precision and backend."""
    panels = []  # type: List[Callable[[Any], None]]
    told, sizes = [], set()
    for run in runs:
        cases = named([run], lambda case: bool(case["model"]["parameters"]))
        found = {case["model"]["parameters"] for _, case, _ in cases}
        if len(found) > 1:
            sizes |= found
            draw, words = _ladder(run, cases)
            panels.append(draw)
            told.append(words)
    if len(sizes) < 3:
        return None
    svg = drawing.drawn([4.4] * len(panels), panels)
    return Plot(svg, "Parameters against time per token. " + ". ".join(told))


def _ladder(run: Run, cases: List[Named]) -> Tuple[Callable[[Any], None], str]:
    """(what draws it, the same in words)"""
    lines = []
    for name, look in _once(cases, lambda c: f"{shown(c['precision'])}, {_who(c)}"):
        lines.append((name, look, sorted(_at(case) for _, case, other in cases if other == look)))
    settings = run.document["settings"]
    title = f"run {run.number}, behind a prompt of {settings['prompt_tokens'][0]} tokens"

    def draw(axes: Any) -> None:
        for name, look, points in lines:
            filled = look.colour if look.filled else "none"
            axes.plot(*zip(*points), color=look.colour, marker=look.marker, linestyle=look.line,
                      markerfacecolor=filled, label=drawing.cut(name, 50))  # fmt: skip
        axes.set_title(title, loc="left")
        axes.set_xlabel("million parameters")
        axes.set_ylabel("ms per token (median)")
        drawing.log(axes.xaxis, axes.set_xscale)
        drawing.log(axes.yaxis, axes.set_yscale)
        axes.grid(True)
        drawing.legend(axes)

    words = [
        f"{name}: {', '.join(f'{x:.3g} M {y:.3g} ms' for x, y in at)}" for name, _, at in lines
    ]
    return draw, f"{title}: " + ". ".join(words)


def _at(case: Case) -> Tuple[float, float]:
    return case["model"]["parameters"] / 1e6, 1e3 * case["summary"]["token_s"]["median"]


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
                axes.plot(*zip(*points), color=look.colour, marker=look.marker,
                          linestyle=look.line, markerfacecolor=filled,
                          label=drawing.cut(name, 50))  # fmt: skip
                told.append(
                    f"{name}: {points[0][1]:.3g} ms at {points[0][0]:.0f} rows, "
                    f"{points[-1][1]:.3g} ms at {points[-1][0]:.0f}"
                )
            axes.set_title(
                drawing.cut(shown(model), 40) + drawing.of(len(same), MOST_LINES), loc="left"
            )
            axes.set_xscale("log", base=2)
            places = sorted({rows for _, case, _ in same for rows, _ in _by_rows(case)})
            axes.set_xticks(places, [f"{rows:.0f}" for rows in places])
            axes.minorticks_off()
            axes.set_ylim(0, 1.08 * axes.dataLim.y1)
            axes.set_xlabel("rows in use")
            axes.set_ylabel("ms per token")
            axes.grid(True)
            drawing.legend(axes)

        return draw

    if not models:
        return None
    heights = [3.0 + 0.25 * min(len(same), MOST_LINES) for _, same in models]
    svg = drawing.drawn(heights, [panel(model, same) for model, same in models])
    return Plot(svg, "Time per token against the rows in use. " + ". ".join(told))


def _by_rows(case: Case) -> List[Tuple[float, float]]:
    parts = [part for part in figures.parts(case, "rows_s") if re.fullmatch("[0-9]{1,9}", part)]
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


def dots(axes: Any, points: List[Tuple[float, float]], look: Look, name: str) -> None:
    filled = look.colour if look.filled else "none"
    axes.plot(*zip(*points), color=look.colour, marker=look.marker, linestyle="none",
              markerfacecolor=filled, markeredgewidth=1.6, markersize=8,
              label=drawing.cut(name, 50))  # fmt: skip
