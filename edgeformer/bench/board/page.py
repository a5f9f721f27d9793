"""A report as one HTML file without anything from elsewhere, for whoever sends it to read first."""

from html import escape
from typing import Any, Dict, Iterator, List, Optional, Sequence

from edgeformer.bench.table import clocks

Value = Dict[str, Any]
MIB = 1 << 20

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1a1a1a;
background:#fff}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem;border-bottom:1px solid #bbb}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;margin:.5rem 0}
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}
td{overflow-wrap:anywhere}
td:first-child{min-width:6rem;overflow-wrap:normal}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bar{background:#0b62a4;height:.7rem;min-width:1px}
.note{border-left:4px solid #b35900;padding:.3rem .8rem;background:#fdf3e7}
@media print{.note{background:none}a{color:inherit}}
"""


def html_of(report: Value) -> str:
    """The page."""
    machine, board = report["machine"], report["machine"]["board"]
    title = f"edgeformer on {board['model'] if board else machine['processor']}"
    body = [f"<h1>{escape(title)}</h1>"]
    if not report["is_board"]:
        body.append(
            '<p class="note"><b>This is no board.</b> The report was made on a machine that is '
            "neither a Jetson Nano nor a Jetson Orin Nano; it says nothing about one.</p>"
        )
    if not report["complete"]:
        body.append('<p class="note">Not everything could be measured; what failed is below.</p>')
    body += _machine(report)
    for bundle in report["bundles"]:
        body += _bundle(bundle)
    body.append(
        "<p>To send: <code>report.json</code>, which holds all of this and each round. "
        "A maintainer checks it with <code>python -m benchmarks.accept report.json</code>.</p>"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _machine(report: Value) -> Iterator[str]:
    machine, board, gpu = report["machine"], report["machine"]["board"] or {}, report["gpu"]
    locked = {True: "locked", False: "free", None: None}[board.get("clocks_locked")]
    rows = [
        ("Measured", f"{report['made']}, {report['seconds'] / 60:.1f} minutes of work"),
        ("edgeformer", f"{report['edgeformer']}, {report['commit'] or 'not a clone'}"),
        ("System", f"{machine['system']}, Python {machine['python']}"),
        ("L4T, JetPack", _joined(board.get("l4t"), board.get("jetpack"))),
        ("Power mode, clocks", _joined(board.get("power_mode"), locked)),
        ("CPU", f"{machine['processor']}, {machine['cpus']} cores, {machine['governor'] or '-'}"),
        ("Memory", f"{machine['memory_bytes'] / MIB:.0f} MiB"),
        ("GPU", f"{gpu['name']} ({gpu['compute_capability']})" if gpu else report["gpu_error"]),
        ("TensorRT", gpu["tensorrt"] if gpu else None),
        ("Power from", report["power_source"] or "no sensor"),
        ("Container", "yes" if machine["container"] else "no"),
    ]
    yield _table([], [[name, value or "not told"] for name, value in rows])


def _joined(*values: Optional[str]) -> str:
    return ", ".join(value for value in values if value)


def _bundle(bundle: Value) -> Iterator[str]:
    model = bundle["model"]
    yield f"<h2>{escape(model['name'])}</h2>"
    yield (
        f"<p>{escape(model['precision'])} graphs, weights {model['weights_bytes'] / MIB:.1f} MiB, "
        f"capacity {model['capacity']}, manifest <code>{model['sha256'][:16]}</code></p>"
    )
    for wrong in (bundle["files"]["error"], bundle["bench_error"]):
        if wrong:
            yield f'<p class="note">{escape(wrong)}</p>'
    if bundle["engines"]:
        yield "<h3>Engines</h3>"
        head = ["", "MiB", "built in s", "builder's peak, MiB", ""]
        yield _table(head, [_engines(one) for one in bundle["engines"]], numbers=(1, 2, 3))
    if bundle["checks"]:
        yield "<h3>Golden tokens</h3>"
        yield _table([], [_check(one) for one in bundle["checks"]])
    for one in bundle["numerics"]:
        yield f"<p>{escape(one['run'])}, layer by layer: {escape(one['error'] or one['what'])}</p>"
        head = ["cached rows", "largest error"]
        yield _table(head, [_layer(layer) for layer in one["layers"]], numbers=(1,))
    if bundle["bench"]:
        yield "<h3>Speed</h3>"
        yield from _bench(bundle["bench"])


def _engines(one: Value) -> List[str]:
    size = [None if one[key] is None else one[key] / MIB for key in ("bytes", "peak_bytes")]
    numbers = [_number(value) for value in (size[0], one["seconds"], size[1])]
    return [f"{one['precision']}, {one['layout']}", *numbers, one["error"] or ""]


def _layer(one: Value) -> List[str]:
    return [one["name"], "no number" if one["error"] is None else _number(one["error"])]


def _check(one: Value) -> List[str]:
    said = {True: "passed", False: "FAILED", None: "no verdict"}[one["passed"]]
    return [one["run"], said, one["error"] or one["what"]]


def _bench(document: Value) -> Iterator[str]:
    head = ["", "tokens/s (slowest to fastest round)", "", "first token, ms", "lowest free, MiB"]
    head += ["J a token", "heat", ""]
    cases = [case for case in document["cases"] if case["summary"]]
    most = max([case["summary"]["tokens_per_s"]["median"] for case in cases] or [1.0])
    yield _table(head, [_case(case, most) for case in cases], (1, 3, 4, 5, 6), raw=(2,))
    for case in document["cases"]:
        if case["error"]:
            yield f'<p class="note">{escape(case["name"])}: {escape(case["error"])}</p>'
    settings = document["settings"]
    yield (
        f"<p>{settings['rounds']} rounds of each, in turns, {settings['new_tokens']} new tokens in "
        "each; medians of the rounds. What is not measured here is a dash.</p>"
    )


def _case(case: Value, most: float) -> List[str]:
    found = case["summary"]
    speed, first = found["tokens_per_s"], found["first_token_s"]
    length = min(first, key=int)
    low, energy = found["available_low_bytes"], found["energy_j_per_token"]
    degrees = [r["temperature_c"] for r in case["rounds"] if r["temperature_c"] is not None]
    notes = ["slowed by heat" if any(turn["throttled"] for turn in case["rounds"]) else ""]
    notes += ["" if case["parity"]["passed"] else "tokens NOT as exported", clocks(case)]
    return [
        case["name"],
        f"{speed['median']:.4g} ({speed['low']:.4g} to {speed['high']:.4g})",
        f'<div class="bar" style="width:{10 * speed["median"] / most:.2f}rem"></div>',
        f"{1e3 * first[length]['median']:.3g} after {length}",
        _number(low and low["median"] / MIB),
        _number(energy and energy["median"]),
        f"{max(degrees):.0f} C" if degrees else "-",
        "; ".join(note for note in notes if note),
    ]


def _number(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    raw: Sequence[int] = (),
) -> str:
    """`numbers`: columns to align as such; `raw`: columns that are HTML already."""
    lines = ['<div class="wide"><table>']
    if head:
        lines.append("<tr>" + "".join(f"<th>{escape(text)}</th>" for text in head) + "</tr>")
    for row in rows:
        cells = []
        for index, text in enumerate(row):
            number = ' class="n"' if index in numbers else ""
            cells.append(f"<td{number}>{text if index in raw else escape(text)}</td>")
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join(lines) + "\n</table></div>"
