"""A figure's history as a page: one panel a case, with what happened written beside it."""

from typing import Any, Callable, List, Tuple

from edgeformer.bench import document as documents
from report import drawing, figures, history, page, style
from report.history import Series
from report.runs import Machine, beside

MOST_TICKS = 12
READ_IT = (
    "Each point is the median of one run; the bar is the range of its rounds. A change counts "
    "where it is larger than the noise of the runs before and than what the machine's own "
    "bandwidth explains. The conditions are those of the newest run."
)
Found = List[Tuple[Machine, List[Series]]]


def write(path: str, found: Found, figure: str) -> None:
    documents.write(path, text_of(found, figure))


def text_of(found: Found, figure: str) -> str:
    name = figures.label(figure)
    body = [f"<p>{page.escaped(READ_IT)}</p>"]
    for index, (machine, series) in enumerate(found):
        body.append(f"<h2>{page.escaped(machine.name)}</h2>")
        body += [page.notice(who, what) for who, what in history.changes(series, figure)]
        plot = picture(series, figure)
        caption = beside(machine.runs[-1:])
        body += [f"<h3>{page.escaped(name)}</h3>", page.figure(plot, f"h{index}", caption)]
        body.append(page.table(history.table(series, figure)))
    return page.whole(f"edgeformer: {name} over commits", body)


def picture(series: List[Series], figure: str) -> drawing.Plot:
    known = figures.KINDS[figure.partition("/")[0]]
    told = []

    def panel(one: Series) -> Callable[[Any], None]:
        values = [known.scale * point.median for point in one.points]
        told.append(f"{one.name}: {len(values)} runs, from {values[0]:.3g} to {values[-1]:.3g}")

        def draw(axes: Any) -> None:
            low = [v - known.scale * p.low for v, p in zip(values, one.points)]
            high = [known.scale * p.high - v for v, p in zip(values, one.points)]
            axes.errorbar(range(len(values)), values, [low, high], color=style.BLUE, marker="o",
                          elinewidth=1, capsize=3)  # fmt: skip
            for place, verdict in enumerate(one.verdicts):
                _mark(axes, place, values[place], verdict)
            step = max(1, -(-len(values) // MOST_TICKS))
            places = range((len(values) - 1) % step, len(values), step)
            names = [one.points[place].commit for place in places]
            axes.set_xticks(places, names, rotation=60, ha="right")
            axes.set_ylim(bottom=0)
            axes.margins(x=0.06)
            axes.set_title(drawing.cut(one.name, 50), loc="left")
            axes.set_ylabel(f"{known.unit}")
            axes.grid(True, axis="y")

        return draw

    svg = drawing.drawn([2.9] * len(series), [panel(one) for one in series])
    return drawing.Plot(svg, f"{known.label} over commits. " + ". ".join(told))


def _mark(axes: Any, place: int, value: float, verdict: history.Verdict) -> None:
    if verdict.word not in ("worse", "better"):
        return
    worse = verdict.word == "worse"
    colour, marker = (style.VERMILLION, "X") if worse else (style.GREEN, "D")
    axes.plot([place], [value], marker=marker, color=colour, markersize=11, linestyle="none")
    axes.annotate(f"{100 * abs(verdict.change):.0f} % {verdict.word}", (place, value),
                  textcoords="offset points", xytext=(0, -36), ha="center")  # fmt: skip
