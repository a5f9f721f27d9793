"""What every plot is drawn with: axes, labels, and SVG that can stand inside a page."""

import io
import re
import warnings
from typing import Any, Callable, List, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from report import style

WIDTH = 5.2  # inches: on a phone's 390 px the letters of 11 points are still 10 px high
INK = style.INK


class Plot(NamedTuple):
    """An SVG file; `alt` says in words what it shows."""

    svg: str
    alt: str


def above(axes: Any, row: int, name: str, value: str) -> None:
    """A row's name on the left and its value on the right, above what is drawn in it."""
    place = axes.get_yaxis_transform()
    axes.text(0, row - 0.3, cut(name, 64 - len(value)), transform=place, va="center", size=10)
    axes.text(1, row - 0.3, value, transform=place, va="center", ha="right", size=10)


def of(count: int, most: int) -> str:
    """What to say of a picture that leaves rows out."""
    return f" (the first {most} of {count})" if count > most else ""


def cut(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def rows(axes: Any, count: int, label: str) -> None:
    """Axes whose rows are named by `above`, the first at the top."""
    axes.set_ylim(count - 0.5, -0.7)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x")
    axes.set_xlabel(label)


def log(axis: Any, set_scale: Callable[[str], None]) -> None:
    """A logarithmic scale with plain numbers, at 1, 2 and 5 where the range is short."""
    set_scale("log")
    low, high = sorted(axis.get_view_interval())
    short = low <= 0 or high / low < 100
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if short else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}" if x >= 1 else f"{x:.3g}"))


def legend(axes: Any) -> None:
    """Below the axes, where it covers nothing."""
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), borderaxespad=0, handlelength=3)


def drawn(heights: List[float], panels: List[Callable[[Any], None]]) -> str:
    """The SVG of panels below each other; `heights` in inches."""
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
