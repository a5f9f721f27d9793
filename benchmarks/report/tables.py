"""The tables of a report, apart from how they are written down."""

from typing import List, NamedTuple, Optional, Tuple

from edgeformer.bench.table import clocks
from report import figures, ratios
from report.runs import Case, Machine, Run, conditions, shown

RATIOS = (
    "A ratio is of the quickest tenth of each round's times, where other programs disturb least, "
    "and not of the medians; in brackets its interval."
)


class Table(NamedTuple):
    """`wide`: too many columns for a phone, where each row becomes a card."""

    head: List[str]
    rows: List[List[str]]
    wide: bool = True


def name_of(run: Run, case: Case, many: bool) -> str:
    """A case in a report; the run's number stands before it where there is more than one."""
    return f"{run.number}: {shown(case['name'])}" if many else shown(case["name"])


def parity_of(case: Case) -> str:
    passed, what = case["parity"]["passed"], shown(case["parity"]["what"])
    if case["error"]:
        return f"FAILED: {shown(case['error'])}"
    told = {True: "passed", False: "FAILED", None: "not checked"}[passed]
    return f"{told}: {what}" if what else told


def cases(runs: List[Run]) -> Table:
    """One row a case: all that is measured of each."""
    head = ["case", "parity", "load", "first token", "time per token (range)", "p95", "p99"]
    head += ["tokens/s", "outside the step", "peak memory", "weights", "of the roofline", "noise"]
    rows = []
    told = [clocks(case) for run in runs for case in run.cases]
    for run in runs:
        for case in run.cases:
            rows.append([name_of(run, case, len(runs) > 1), parity_of(case), *_measured(case)])
    if any(told):  # boards and PCs tell, most virtual machines do not
        head.append("clocks, decoding")
        rows = [[*row, text or "–"] for row, text in zip(rows, told)]
    return Table(head, rows)


def _measured(case: Case) -> List[str]:
    summary = case["summary"]
    weights = figures.megabytes(case["model"]["weights_bytes"])
    if summary is None:
        return ["–"] * 8 + [weights, "–", "–"]
    token = summary["token_s"]
    return [
        figures.with_unit(summary["load_s"]["median"], "load_s"),
        _first_token(case),
        figures.with_range(token, "token_s"),
        figures.with_unit(token["p95"], "token_s"),
        figures.with_unit(token["p99"], "token_s"),
        figures.digits(summary["tokens_per_s"]["median"]),
        _median(case, "outside_s"),
        _median(case, "peak_rss_bytes"),
        weights,
        figures.share(summary["roofline_share"]),
        figures.share(summary["noise"]),
    ]


def _median(case: Case, figure: str) -> str:
    found = figures.value(case, figure)
    return figures.with_unit(found["median"] if found else None, figure)


def _first_token(case: Case) -> str:
    told = []
    for part in figures.parts(case, "first_token_s"):
        told.append(f"{part}: {_median(case, 'first_token_s/' + part)}")
    return "; ".join(told) or "–"


def compared(found: List[ratios.Ratio]) -> Table:
    """One row a pair, one column a figure. Where a ratio is refused, the reason stands instead."""
    names = list(dict.fromkeys(one.figure for one in found))
    pairs = {}  # type: Dict[Tuple[int, str, str], List[ratios.Ratio]]
    for one in found:
        pairs.setdefault((one.run.number, one.a["name"], one.b["name"]), []).append(one)
    rows = []
    for (number, a, b), same in pairs.items():
        cells = {one.figure: _ratio(one) for one in same}
        sure = {f"{100 * one.confidence:.4g} %" for one in same if one.confidence is not None}
        why = dict.fromkeys(one.why for one in same if one.why)
        rows.append(
            [
                f"{shown(b)} / {shown(a)}",
                str(number),
                *(cells.get(name, "–") for name in names),
                ", ".join(sorted(sure)) or "–",
                "; ".join(why) or "–",
            ]
        )
    head = ["time of the first / time of the second", "run", *map(figures.label, names)]
    return Table([*head, "confidence", "why not compared"], rows)


def _ratio(one: ratios.Ratio) -> str:
    if one.low is None or one.high is None:
        return "not compared"
    interval = f"({one.low:.3f}–{one.high:.3f})"
    return f"no difference {interval}" if one.ratio is None else f"{one.ratio:.3f} {interval}"


def ladder(runs: List[Run]) -> Table:
    """One row a case, from the smallest model to the largest. Tokens behind prompts of two lengths
    are two things."""
    rows = []
    prompts = [str(run.document["settings"]["prompt_tokens"][0]) for run in runs for _ in run.cases]
    for run in runs:
        against = {one.b["name"]: one for one in ratios.ratios(run) if one.figure == "token_s"}
        for case in run.cases:
            name, one = case["name"], against.get(case["name"])
            token = case["summary"]["token_s"] if case["summary"] else None
            count = case["model"]["parameters"]
            of = ""
            if one and not one.why:
                of = f" of {shown(one.a['precision'])} {shown(one.a['backend'])}"
            rows.append(
                [
                    shown(name),
                    "–" if count is None else f"{figures.digits(count / 1e6)} M",
                    figures.megabytes(case["model"]["weights_bytes"]),
                    figures.with_range(token, "token_s"),
                    "–" if token is None else figures.with_unit(token["p95"], "token_s"),
                    figures.digits(case["summary"]["tokens_per_s"]["median"]) if token else "–",
                    _first_token(case),
                    _median(case, "peak_rss_bytes") if token else "–",
                    f"{_ratio(one)}{of}" if one else "–",
                    parity_of(case),
                ]
            )
    head = ["case", "parameters", "weights", "time per token (range)", "p95", "tokens/s"]
    head += ["first token", "peak memory", "time", "parity"]
    if len(set(prompts)) > 1:
        head.insert(3, "behind a prompt of")
        rows = [[*row[:3], prompt, *row[3:]] for row, prompt in zip(rows, prompts)]
    return Table(head, rows)


def quality(runs: List[Run]) -> Optional[Table]:
    """Precision against size, speed and what it costs the model's words."""
    rows = []
    for run in runs:
        for case in run.cases:
            found = case["model"]["quality"]
            words = ["not measured"] + ["–"] * 2
            if found:
                words = [
                    f"{found['perplexity']:.4g} (fp32: {found['reference_perplexity']:.4g})",
                    f"{found['kl']:.3g}",
                    f"{100 * found['top1']:.3g} %",
                ]
            name = name_of(run, case, len(runs) > 1)
            size = figures.megabytes(case["model"]["weights_bytes"])
            speed = figures.value(case, "tokens_per_s") if case["summary"] else None
            told = figures.digits(speed["median"]) if speed else "–"
            rows.append([name, shown(case["precision"]), size, told, *words])
    head = ["case", "precision", "weights", "tokens/s", "perplexity", "KL, nats", "top-1"]
    return Table(head, rows)


def by_part(runs: List[Run], name: str, first: str) -> Table:
    """One row a case, one column a prompt length or number of rows in use."""
    keys = []  # type: List[str]
    for run in runs:
        for case in run.cases:
            keys += [key for key in figures.parts(case, name) if key not in keys]
    keys.sort(key=lambda key: (not key.isdigit(), len(key), key))
    rows = []
    for run in runs:
        for case in run.cases:
            cells = [_median(case, f"{name}/{key}") for key in keys]
            if set(cells) - {"–"}:
                rows.append([name_of(run, case, len(runs) > 1), *cells])
    return Table([first, *(shown(key) for key in keys)], rows, wide=len(keys) > 3)


def all_conditions(machine: Machine) -> Table:
    """What each run was measured under, side by side."""
    told = [dict(conditions(run)) for run in machine.runs]
    names = list(dict.fromkeys(key for run in machine.runs for key, _ in conditions(run)))
    rows = [[name, *(one.get(name, "not loaded") for one in told)] for name in names]
    head = ["condition", *(f"run {run.number}" for run in machine.runs)]
    return Table(head, rows, wide=len(machine.runs) > 2)


def findings(runs: List[Run]) -> List[Tuple[str, str]]:
    """(run's number and case, what is wrong): what a reader must not overlook."""
    found = []
    for run in runs:
        if not run.document["complete"]:
            found.append((f"run {run.number}", "was cut short: it holds fewer rounds than asked"))
        for case in run.cases:
            name = name_of(run, case, len(runs) > 1)
            if case["error"]:
                found.append((name, f"failed: {shown(case['error'])}"))
            elif case["parity"]["passed"] is False:
                what = shown(case["parity"]["what"])
                found.append((name, f"computes something else ({what}): its speed is no result"))
            if any(turn["throttled"] for turn in case["rounds"]):
                found.append((name, "the board throttled while it ran"))
    return found
