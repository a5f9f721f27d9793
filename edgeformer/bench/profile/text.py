"""A profile as text: where the time of a token went, by operator, by layer and by product."""

from statistics import median
from typing import Any, Dict, List, Optional

from edgeformer.bench.profile.places import PARTS
from edgeformer.bench.table import conditions_of

Row = Dict[str, Any]
WIDTH = 30
LEGEND = """\
Each figure: the mean of the half in the middle, of whole times and of each node's; what its pauses
  take beyond is told apart, so that all parts add up. Most of what the profiler itself takes is
  "between nodes", as is up to 1 us of each node: it counts whole microseconds, cut off.
GB/s: bytes of weights and of the cache that a node reads, by its time; share: of the read
  bandwidth probed in this run with the same threads. More than 100 %: from faster caches.
outside: the loop, stop rules and text. Without the profiler it is what the second line says."""
PART_WORDS = {
    "nodes": "nodes of the graph",
    "uneven": "beyond, in pauses",
    "between": "between nodes (runtime)",
    "run": "around the run (runtime)",
    "step": "the step's Python",
    "outside": "outside the step",
}
COLUMNS = ("products", "attention", "norms", "ff", "sums")  # PARTS, shorter


def text_of(document: Row) -> str:
    """The whole report."""
    machine, model = document["machine"], document["model"]
    lines = conditions_of(document)
    lines.append(
        f"{model['name']} {model['precision']} (dialect {model['dialect']}), "
        f"threads: {document['threads']}"
    )
    rate = machine["bandwidth_bytes_per_s"]
    ceiling = median([rate["at_start"], rate["at_end"]])
    for phase in document["phases"]:
        lines += ["", *_phase(phase, ceiling)]
    return "\n".join([*lines, "", LEGEND]) + "\n"


def _phase(phase: Row, ceiling: float) -> List[str]:
    total, rows = phase["us"], phase["rows"]
    plain = median(phase["plain_us"])
    if phase["what"] == "decode":
        title = f"A TOKEN with {rows} rows in use"
    else:
        title = f"A PROMPT of {phase['tokens']} tokens, in {phase['steps']} steps"
    low, high = min(phase["plain_us"]), max(phase["plain_us"])
    outside = median(phase["plain_outside_us"])
    lines = [
        f"{title}: {total:.0f} us with the profiler, {plain:.0f} us without it ({low:.0f} and "
        f"{high:.0f} in two loads): x{total / plain:.2f}",
        f"without the profiler {outside:.0f} us of it are outside the step; "
        f"{phase['kept']} of {phase['samples']} samples count",
        "",
        f"{'':{WIDTH}}{'us':>9}{'share':>8}",
    ]
    for key, words in PART_WORDS.items():
        us = phase["parts"][key]
        lines.append(f"{words:{WIDTH}}{_us(us)}{_share(us, total)}")
    lines.append(f"{'all':{WIDTH}}{_us(total)}{_share(total, total)}")
    head = f"{'us':>9}{'share':>8}{'nodes':>7}{'weights':>11}{'cache':>11}{'GB/s':>7}{'share':>8}"
    for title, key in (("by operator", "operators"), ("by product", "products")):
        lines += ["", f"{title:{WIDTH}}{head}"]
        lines += [_row(row, total, ceiling) for row in phase[key]]
        if key == "operators":
            lines += [_all_nodes(phase), *_not_told(phase)]
    return lines + ["", *_layers(phase, total)]


def _row(row: Row, total: float, ceiling: float) -> str:
    read = row["weight_bytes"] + row["cache_bytes"]
    rate = read / row["us"] * 1e6 if row["us"] else None
    return (
        f"{row['name']:{WIDTH}}{_us(row['us'])}{_share(row['us'], total)}{row['nodes']:>7}"
        f"{_size(row['weight_bytes'])}{_size(row['cache_bytes'])}{_rate(rate, read)}"
        + (_share(rate, ceiling) if read and rate else f"{'-':>8}")
    )


def _all_nodes(phase: Row) -> str:
    nodes, us = sum(row["nodes"] for row in phase["operators"]), phase["parts"]["nodes"]
    weights, cache = (
        sum(row[key] for row in phase["operators"]) for key in ("weight_bytes", "cache_bytes")
    )
    return (
        f"{'all nodes':{WIDTH}}{_us(us)}{_share(us, phase['us'])}{nodes:>7}"
        f"{_size(weights)}{_size(cache)}"
    )


def _not_told(phase: Row) -> List[str]:
    """What a step reads beyond what nodes of the profile were found for."""
    lines = []
    for key, what in (
        ("weight_bytes", "of weights: no node of the profile could be told to read them"),
        ("cache_bytes", "of the cache: the step's own rows"),
    ):
        left = phase[key] - sum(row[key] for row in phase["operators"])
        if left > phase[key] / 1000:
            lines.append(f"{_size(left).strip()} more {what}")
    return lines


def _layers(phase: Row, total: float) -> List[str]:
    head = "".join(f"{name:>10}" for name in COLUMNS)
    lines = [f"{'by layer (us)':{WIDTH}}{'us':>9}{'share':>8}{head}{'weights':>11}{'cache':>11}"]
    for row in phase["layers"]:
        inside = "".join(_part(row["parts"][part]) for part in PARTS)
        lines.append(
            f"{row['name']:{WIDTH}}{_us(row['us'])}{_share(row['us'], total)}{inside}"
            f"{_size(row['weight_bytes'])}{_size(row['cache_bytes'])}"
        )
    sums = [sum(row["parts"][part] for row in phase["layers"]) for part in PARTS]
    nodes = phase["parts"]["nodes"]
    lines.append(
        f"{'all nodes':{WIDTH}}{_us(nodes)}{_share(nodes, total)}" + "".join(map(_part, sums))
    )
    return lines


def _us(value: float) -> str:
    return f"{value:>9.1f}"


def _part(value: float) -> str:
    return f"{value:>10.1f}" if value else f"{'-':>10}"


def _share(value: float, of: float) -> str:
    return f"{value / of:>8.1%}"


def _size(value: float) -> str:
    if not value:
        return f"{'-':>11}"
    return f"{value / 1e6:>8.2f} MB" if value >= 1e5 else f"{value / 1e3:>8.2f} kB"


def _rate(rate: Optional[float], read: int) -> str:
    return f"{rate / 1e9:>7.1f}" if rate and read else f"{'-':>7}"
