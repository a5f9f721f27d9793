"""A report as Markdown, for a terminal, an issue or a README."""

import html
import re
from typing import List, Tuple

from report import figures, ratios, tables
from report.history import Series, changes
from report.history import table as overview
from report.runs import Machine, beside, differences, shown

_SPECIAL = re.compile(r"([\\`*\[\]|~$]|(?<!\w)_|_(?!\w))")


def escaped(text: str) -> str:
    """Text of a document, with nothing left that Markdown or HTML would act on."""
    return _SPECIAL.sub(r"\\\1", html.escape(text, quote=False))


def table(found: tables.Table) -> List[str]:
    rows = [found.head, *found.rows]
    lines = ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in rows]
    lines.insert(1, "|---" * len(found.head) + "|")
    return lines


def report(machines: List[Machine]) -> str:
    """The whole comparison. Each machine has tables of its own."""
    lines = []  # type: List[str]
    if len(machines) > 1:
        lines += [f"> **{different_machines(machines)}**", ""]
    for machine in machines:
        lines += _section(machine)
    return "\n".join(lines).rstrip()


def history(found: List[Tuple[Machine, List[Series]]], figure: str) -> str:
    """One table a machine, and before it each change beyond noise."""
    lines = []  # type: List[str]
    for machine, series in found:
        lines += [f"## {escaped(machine.name)}: {escaped(figures.label(figure))}", ""]
        for who, what in changes(series, figure):
            lines += [f"> **{escaped(who)}** {escaped(what)}", ""]
        lines += [*table(overview(series, figure)), ""]
        lines += [f"Newest run: {escaped(beside(machine.runs[-1:]))}", ""]
    return "\n".join(lines).rstrip()


def different_machines(machines: List[Machine]) -> str:
    return (
        f"These documents come from {len(machines)} different machines. Each has tables of its "
        "own; no figure of one is divided by a figure of another."
    )


def several_runs(machine: Machine) -> str:
    numbers = ", ".join(str(run.number) for run in machine.runs)
    return (
        f"Runs {numbers} were made one after the other and not in turns, so no ratio is taken "
        "between them: give one bench all the bundles, and its rounds alternate."
    )


def _section(machine: Machine) -> List[str]:
    lines = [f"## {escaped(machine.name)}", ""]
    for run in machine.runs:
        lines.append(f"- run {run.number}: {escaped(shown(run.path))}")
    lines.append("")
    if len(machine.runs) > 1:
        lines += [several_runs(machine), ""]
        for name, values in differences(machine.runs):
            lines.append(f"- **differs: {name}**: {escaped(' / '.join(values))}")
        lines.append("")
    for who, what in tables.findings(machine.runs):
        lines += [f"> **{escaped(who)}** {escaped(what)}", ""]
    lines += [*table(tables.cases(machine.runs)), ""]
    lines += [
        "Median of the rounds' medians; in brackets the lowest and the highest round; p95 and p99 "
        "of the tokens of all rounds together.",
        "",
    ]
    found = [one for run in machine.runs for one in ratios.ratios(run)]
    if found:
        lines += [f"Ratios, of rounds in turns. {tables.RATIOS}", ""]
        lines += [*table(tables.compared(found)), ""]
    return [*lines, f"Conditions: {escaped(beside(machine.runs))}", ""]
