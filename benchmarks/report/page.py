"""A report as one HTML file: no script, nothing fetched, every text of a document escaped."""

import html
import os
from typing import List, NamedTuple, Optional, Tuple

from edgeformer.bench import document as documents
from report import drawing, markdown, plots, ratios, tables, timeline, worth
from report.runs import Machine, Run, beside, differences, shown

HERE = os.path.dirname(os.path.abspath(__file__))
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
READ_IT = (
    "Every figure is the median of the rounds' medians, each round a fresh process; a range is the "
    "lowest and the highest round; p95 and p99 are of the tokens of all rounds together, and a "
    "ratio is of the quickest tenth of each round, with its interval. A dash means not measured "
    "here, never zero. Cases whose parity failed stand in the tables, marked, and in no picture."
)

LAST = (
    ("cases", "All cases"),
    ("ratios", "Ratios, of rounds in turns"),
    ("conditions", "All conditions"),
)


class Part(NamedTuple):
    """One picture with its table. `without` is said where there is nothing to draw."""

    name: str
    title: str
    text: str
    plot: Optional[drawing.Plot]
    table: Optional[tables.Table]
    without: str


def write(path: str, machines: List[Machine]) -> None:
    documents.write(path, text_of(machines))


def text_of(machines: List[Machine], title: str = "edgeformer benchmarks") -> str:
    """The whole page, in ASCII: what is not stands as character references."""
    body = [f"<p>{escaped(READ_IT)}</p>"]
    if len(machines) > 1:
        body.append(notice("Not one machine.", markdown.different_machines(machines)))
    for index, machine in enumerate(machines):
        body += _machine(machine, f"m{index + 1}")
    return whole(title, body)


def whole(title: str, body: List[str]) -> str:
    """A page of these parts under a heading."""
    with open(os.path.join(HERE, "look.css"), encoding="utf-8") as file:
        look = file.read()
    page = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>{escaped(title)}</title><style>\n{look}</style></head><body>",
        f"<h1>{escaped(title)}</h1>",
        *body,
        "</body></html>",
    ]
    return "\n".join(page).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _machine(machine: Machine, prefix: str) -> List[str]:
    runs = machine.runs
    lines = [f"<h2>{escaped(machine.name)}</h2>", "<ul>"]
    for run in runs:
        kind = run.document["kind"]
        told = f"run {run.number}: {kind}, {run.document['made']}, {os.path.basename(run.path)}"
        lines.append(f"<li>{escaped(shown(told))}</li>")
    lines.append("</ul>")
    if len(runs) > 1:
        lines.append(notice("Separate runs.", markdown.several_runs(machine)))
        for name, values in differences(runs):
            lines.append(notice(f"They differ in {name}:", " / ".join(values)))
    for who, what in tables.findings(runs):
        lines.append(notice(who, what))
    parts = _parts(machine)
    links = [(part.name, part.title) for part in parts] + list(LAST)
    lines.append(_links([(f"{prefix}-{name}-part", title) for name, title in links]))
    for part in parts:
        lines += _part(part, runs, prefix)
    (cases, in_turns, conditions) = LAST
    lines += [_heading(prefix, *cases), table(tables.cases(runs)), _conditions(runs)]
    compared = [one for run in runs for one in ratios.ratios(run)]
    lines.append(_heading(prefix, *in_turns))
    if compared:
        lines += [f"<p>{escaped(tables.RATIOS)}</p>", table(tables.compared(compared))]
        lines.append(_conditions(runs))
    else:
        lines.append("<p>No run here compared two cases.</p>")
    lines += [_heading(prefix, *conditions), table(tables.all_conditions(machine))]
    return lines


def _parts(machine: Machine) -> List[Part]:
    """What there is to draw, the ladder only where there is one."""
    runs = machine.runs
    engines = [one for run in runs for one in ratios.between_backends(run)]
    ladder = plots.ladder(runs)
    return ([_ladder(runs, ladder)] if ladder else []) + [
        Part(
            "backends",
            "TensorRT against ONNX Runtime",
            "Seconds of one for each second of the other, of the quickest tenth of each round, "
            "with the interval; an interval that holds 1 is no difference.",
            plots.backends(engines),
            tables.compared(engines) if engines else None,
            "No run here compares TensorRT with ONNX Runtime on one model.",
        ),
        Part(
            "size",
            "Precision, size and speed",
            "Further left is smaller, higher is faster. A thin line joins the cases of a model.",
            plots.size_and_speed(runs),
            tables.quality(runs),
            "No case has a size and a speed.",
        ),
        *_worth(runs),
        Part(
            "latency",
            "Latency percentiles",
            "Of the tokens of all rounds together.",
            plots.latency(runs),
            None,
            "No case has finished a round.",
        ),
        *_over_context_and_time(runs),
    ]


def _worth(runs: List[Run]) -> List[Part]:
    """Only where several cases lose something."""
    plot = worth.quality_and_speed(runs)
    text = (
        "Further right is faster, further down is nearer to float32. The thin line joins what "
        "nothing here outdoes in both."
    )
    return [Part("worth", "Quality against speed", text, plot, None, "")] if plot else []


def _over_context_and_time(runs: List[Run]) -> List[Part]:
    return [
        Part(
            "rows",
            "Time per token by context length",
            "One-token steps with so many rows of the cache in use.",
            plots.rows_in_use(runs),
            tables.by_part(runs, "rows_s", "case / rows in use"),
            "No case was measured at more than one number of rows.",
        ),
        Part(
            "memory",
            "Memory over time",
            "Free memory of the whole machine, and what each case's process had; a shaded band is "
            "every second case.",
            timeline.memory(runs),
            None,
            "No run holds samples of memory.",
        ),
        Part(
            "roofline",
            "Share of the memory-bandwidth roofline",
            "Bytes that a token must read, over the read bandwidth probed in the same run. Above "
            "100 %: the weights stayed in a cache that is faster than what was probed.",
            plots.roofline(runs),
            None,
            "No case has a share of the roofline: the bandwidth was not probed.",
        ),
    ]


def _ladder(runs: List[Run], plot: drawing.Plot) -> Part:
    text = (
        "One line for each precision and backend. A ratio of times is one that the run took "
        "between its alternating rounds."
    )
    return Part("ladder", "The ladder", text, plot, tables.ladder(runs), "")


def _part(part: Part, runs: List[Run], prefix: str) -> List[str]:
    lines = [_heading(prefix, part.name, part.title)]
    if part.plot is None:
        return [*lines, f"<p>{escaped(part.without)}</p>"]
    rows = table(part.table) if part.table else ""
    two = " two" if part.table and not part.table.wide else ""
    more = ["read bandwidth"] if part.name == "roofline" else []
    picture = figure(part.plot, f"{prefix}-{part.name}", beside(runs, *more))
    return [
        *lines,
        f"<p>{escaped(part.text)}</p>",
        f'<div class="both{two}">{picture}<div>{rows}</div></div>',
    ]


def figure(plot: drawing.Plot, name: str, caption: str) -> str:
    """A picture that is one image to a screen reader, with its words and its conditions."""
    start = f'<svg role="img" aria-label="{escaped(plot.alt)}" '
    svg = drawing.inline(plot.svg, name).replace("<svg ", start, 1)
    return f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"


def _heading(prefix: str, name: str, title: str) -> str:
    return f'<h3 id="{prefix}-{name}-part">{escaped(title)}</h3>'


def _links(places: List[Tuple[str, str]]) -> str:
    links = "".join(f'<li><a href="#{place}">{escaped(title)}</a></li>' for place, title in places)
    return f"<nav><ul>{links}</ul></nav>"


def _conditions(runs: List[Run]) -> str:
    return f'<p class="conditions">{escaped(beside(runs))}</p>'


def notice(head: str, text: str) -> str:
    return f'<p class="notice"><strong>{escaped(head)}</strong> {escaped(text)}</p>'


def table(found: tables.Table) -> str:
    """Roles are said, since a phone's cards would otherwise be no table to a screen reader."""
    kind = ' class="wide"' if found.wide else ""
    head = "".join(
        f'<th role="columnheader" scope="col">{escaped(name)}</th>' for name in found.head
    )
    lines = [f'<div class="scroll"><table role="table"{kind}>']
    lines.append(f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>')
    lines.append('<tbody role="rowgroup">')
    for row in found.rows:
        cells = [f'<th role="rowheader" scope="row">{escaped(row[0])}</th>']
        for name, cell in zip(found.head[1:], row[1:]):
            cells.append(
                f'<td role="cell" data-of="{escaped(name)}"><span>{escaped(cell)}</span></td>'
            )
        lines.append(f'<tr role="row">{"".join(cells)}</tr>')
    return "\n".join([*lines, "</tbody></table></div>"])


def escaped(text: str) -> str:
    return html.escape(text, quote=True)
