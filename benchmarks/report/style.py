"""One look for all plots: colours that colour-blind readers tell apart, and never colour alone."""

from typing import Any, Dict, List, NamedTuple

# Okabe and Ito's palette without its yellow (invisible on white) and black (on black).
BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
ORANGE, SKY, PURPLE = "#E69F00", "#56B4E9", "#CC79A7"
# Stands for the page's own colour of text, so that a plot is as dark or light as the page.
INK = "#010203"

COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = "osD^vP"
LINES = ("-", "--", ":", "-.")
PRECISIONS = {
    "fp32": 0,
    "n4": 1,
    "n8": 2,
    "int8-dynamic": 3,
    "int8-qdq": 4,
    "int8": 4,
    "fp16": 5,
}


class Look(NamedTuple):
    """`filled` tells backends apart where there is no line."""

    colour: str
    marker: str
    line: Any
    filled: bool


def looks(cases: List[Dict[str, Any]]) -> List[Look]:
    """Colour and marker by precision, line and filling by backend or, among peers, by engine.

    A precision looks the same in every report. Where engines are what is compared, they take the
    colours.
    """
    engines = list(dict.fromkeys(engine_of(case) for case in cases))
    precisions = list(dict.fromkeys(case["precision"] for case in cases))
    others = [name for name in precisions if name not in PRECISIONS]
    found = []
    for case in cases:
        engine = engines.index(engine_of(case))
        name = case["precision"]
        precision = PRECISIONS.get(name, 0)
        if name in others:
            precision = len(COLOURS) - 1 - others.index(name) % len(COLOURS)
        colour = precision
        if len(engines) > 2:
            colour, engine, precision = engine, precisions.index(name), engine
        found.append(
            Look(
                COLOURS[colour % len(COLOURS)],
                MARKERS[precision % len(MARKERS)],
                LINES[engine % len(LINES)],
                engine % 2 == 0,
            )
        )
    return found


def engine_of(case: Dict[str, Any]) -> str:
    return str(case["engine"]["name"] if case["engine"] else case["backend"])


def settings() -> Dict[str, Any]:
    """matplotlib's settings of every plot."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "edgeformer",
        "text.parse_math": False,
        "font.size": 11,
        "axes.titlesize": 11,
        "axes.labelsize": 11,
        "legend.fontsize": 10,
        "xtick.labelsize": 10,
        "ytick.labelsize": 10,
        "lines.linewidth": 1.8,
        "lines.markersize": 6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.frameon": False,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.titlecolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": INK,
        "grid.alpha": 0.15,
    }
