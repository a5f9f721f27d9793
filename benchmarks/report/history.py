"""One figure over the commits of each machine, and where it got worse by more than noise.

Noise is what the runs before say it is: the spread between them, where there are four and more,
else the ranges of their rounds. The baseline begins anew where a figure has changed.
"""

import math
import os
from typing import List, NamedTuple, Optional, Tuple

from edgeformer.bench import commits
from edgeformer.errors import EdgeformerError
from report import figures, runs, tables
from report.runs import Machine, Run, shown

# Student's t, one-sided, 1 in 2000, by degrees of freedom; many figures are judged at once
T_2000 = {3: 12.924, 4: 8.610, 5: 6.869, 6: 5.959, 7: 5.408, 8: 5.041, 9: 4.781}
FEWEST, MOST = 4, 10  # runs before, from which their spread is taken
LEAST, LEAST_OF_FEW = 0.02, 0.1  # changes below this share are never pointed out


class Point(NamedTuple):
    """A figure in one run. `bandwidth`: the machine's own in that run, bytes/s."""

    commit: str
    made: str
    median: float
    low: float
    high: float
    bandwidth: Optional[float]


class Verdict(NamedTuple):
    """`change`, `noise`: shares; change is positive where the figure got worse."""

    word: str  # first, same, worse, better, not judged
    change: float
    noise: float
    why: str


class Series(NamedTuple):
    """One case on one machine: a point for each run, and what is to be said of each."""

    name: str
    points: List[Point]
    verdicts: List[Verdict]


def stored(folder: str) -> List[str]:
    """Every result file below this folder."""
    found = []
    for place, _, names in os.walk(folder):
        found += [os.path.join(place, name) for name in names if name.endswith(".json")]
    if not found:
        raise EdgeformerError(
            f"there is no result file in {folder}; keep some with `bench -o` in a folder for each "
            "machine, or say --results"
        )
    return sorted(found)


def documents_below(folder: str) -> Tuple[List[Run], List[str]]:
    """(the benches in this folder, why each other file is none): boards' reports and results of
    other programs lie there, too."""
    found, others = [], []  # type: List[Run], List[str]
    for path in stored(folder):
        try:
            found += runs.read([path])
        except EdgeformerError as error:
            others.append(f"{path} is left out: {error}")
    return found, others


def machines_in(found: List[Run]) -> List[Machine]:
    """The runs of each machine, in the order of their commits."""
    times = commits.history().times  # {} of a copy: then the runs' own times are the order

    def place(run: Run) -> Tuple[str, str]:
        document = run.document
        commit = (document["commit"] or "").partition("-")[0]
        return times.get(commit, document["made"]), document["made"]

    made = []
    for machine in runs.by_machine(found):
        ordered = sorted(machine.runs, key=place)
        made.append(
            Machine(machine.name, [r._replace(number=i + 1) for i, r in enumerate(ordered)])
        )
    return made


def series(machine: Machine, figure: str) -> List[Series]:
    """Each case that was measured more than once in the same way. Wrong results are left out."""
    found = {}  # type: Dict[Tuple[Any, ...], List[Point]]
    for run in machine.runs:
        settings = run.document["settings"]
        way = (settings["prompt_tokens"][0], settings["new_tokens"], "side_by_side" in settings)
        for case in run.cases:
            value = figures.value(case, figure)
            wrong = case["error"] or case["parity"]["passed"] is False
            if value is None or wrong or value["median"] <= 0 or value["low"] <= 0:
                continue
            engine = case["engine"]["name"] if case["engine"] else ""
            key = (case["name"], case["backend"], case["precision"], case["threads"], engine, way)
            found.setdefault(key, []).append(_point(run, value))
    less = figures.KINDS[figure.partition("/")[0]].less
    names = [key[0] for key in found]
    made = []
    for key, points in found.items():
        # the same case measured with other settings is another series
        of = f", prompt {key[-1][0]}, {key[-1][1]} tokens" if names.count(key[0]) > 1 else ""
        made.append(Series(shown(key[0]) + of, points, judged(points, less)))
    return made


def regressed(machine: Machine, one: Series) -> bool:
    """Whether the machine's newest run is worse than noise explains in this series."""
    newest = machine.runs[-1].document["made"]
    return one.points[-1].made == newest and one.verdicts[-1].word == "worse"


def judged(points: List[Point], less: bool = True) -> List[Verdict]:
    """What each run says against those before it. `less`: whether less is better."""
    verdicts = []  # type: List[Verdict]
    start = 0
    for index, point in enumerate(points):
        before = points[start:index][-MOST:]
        verdict = _verdict(before, point, 1 if less else -1)
        if verdict.word in ("worse", "better"):
            start = index
        verdicts.append(verdict)
    return verdicts


def _verdict(before: List[Point], point: Point, sign: int) -> Verdict:
    if not before:
        return Verdict("first", 0.0, 0.0, "nothing to compare with")
    logs = [sign * math.log(one.median) for one in before]
    change = sign * math.log(point.median) - sum(logs) / len(logs)
    noise, why = _noise(logs, before, point)
    machine = _slower_machine(before, point)
    word = "same"
    if abs(change) > noise:
        word = "worse" if change > 0 else "better"
        if change * machine > 0 and abs(change) - abs(machine) <= noise:
            word = "not judged"
            why = f"the machine's own read bandwidth is {math.exp(-machine):.2f} times that"
    return Verdict(word, math.expm1(abs(change)) * (1 if change > 0 else -1), noise, why)


def _noise(logs: List[float], before: List[Point], point: Point) -> Tuple[float, str]:
    """(natural logarithm that a change must pass, how it was found)"""
    count = len(logs)
    if count >= FEWEST:
        mean = sum(logs) / count
        spread = math.sqrt(sum((one - mean) ** 2 for one in logs) / (count - 1))
        noise = T_2000[count - 1] * spread * math.sqrt(1 + 1 / count)
        return max(noise, LEAST), f"spread of the {count} runs before"
    # half the range of the rounds, of both: less than this, and rounds of both overlap
    half = max(math.log(one.high / one.low) / 2 for one in before)
    noise = half + math.log(point.high / point.low) / 2
    return max(noise, LEAST_OF_FEW), "ranges of the rounds, with fewer than 4 runs before"


def _slower_machine(before: List[Point], point: Point) -> float:
    """By how much (in logarithms) the machine's own bandwidth was less; 0 where it is not known."""
    known = [math.log(one.bandwidth) for one in before if one.bandwidth]
    if not point.bandwidth or not known:
        return 0.0
    return sum(known) / len(known) - math.log(point.bandwidth)


def _point(run: Run, value: figures.Found) -> Point:
    document = run.document
    probed = document["machine"]["bandwidth_bytes_per_s"]
    bandwidth = None
    if probed:
        ends = [probed[end] for end in ("at_start", "at_end") if (probed[end] or 0) > 0]
        bandwidth = sum(ends) / len(ends) if ends else None
    commit = document["commit"] or ""
    name = commit[:8] + ("*" if commit.endswith("-dirty") else "") or "no commit"
    return Point(name, document["made"], value["median"], value["low"], value["high"], bandwidth)


def table(found: List[Series], figure: str) -> tables.Table:
    """Each series with its newest run against the runs before."""
    rows = []
    for one in found:
        last, verdict = one.points[-1], one.verdicts[-1]
        rows.append(
            [
                one.name,
                str(len(one.points)),
                figures.with_unit(one.points[0].median, figure),
                f"{figures.with_unit(last.median, figure)} ({last.commit})",
                "–" if verdict.word == "first" else f"{100 * verdict.change:+.1f} %",
                "–" if verdict.word == "first" else f"{100 * math.expm1(verdict.noise):.1f} %",
                f"{verdict.word}: {verdict.why}",
            ]
        )
    head = ["case", "runs", "first", "newest", "worse by", "noise", "newest against those before"]
    return tables.Table(head, rows)


def changes(found: List[Series], figure: str) -> List[Tuple[str, str]]:
    """(series, what happened at which commit), for every change beyond noise."""
    told = []
    for one in found:
        for index, (point, verdict) in enumerate(zip(one.points, one.verdicts)):
            if verdict.word in ("worse", "better"):
                change = 100 * math.expm1(math.log1p(abs(verdict.change)))
                word = "REGRESSION" if verdict.word == "worse" else "improvement"
                told.append(
                    (
                        one.name,
                        f"{word} at {point.commit} ({point.made}): {figures.label(figure)} "
                        f"from {figures.with_unit(one.points[index - 1].median, figure)} to "
                        f"{figures.with_unit(point.median, figure)}, {change:.1f} % "
                        f"{verdict.word} than before; noise {100 * math.expm1(verdict.noise):.1f} %"
                        f" ({verdict.why})",
                    )
                )
    return told
