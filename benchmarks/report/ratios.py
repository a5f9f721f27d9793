"""Who is faster than whom: only what a run itself compared, and only where both are right."""

from typing import List, NamedTuple, Optional

from report import figures
from report.runs import Case, Run, shown


class Ratio(NamedTuple):
    """`ratio`, `low`, `high`: b's seconds for each second of a's; None where `why` refuses it."""

    run: Run
    a: Case
    b: Case
    figure: str
    ratio: Optional[float]
    low: Optional[float]
    high: Optional[float]
    confidence: Optional[float]
    verdict: str
    why: Optional[str]


def ratios(run: Run) -> List[Ratio]:
    """Every comparison of a run, which its own rounds give: whoever read it has seen to that."""
    cases = {case["name"]: case for case in run.cases}
    found = []
    for entry in run.document["comparisons"]:
        a, b = cases[entry["a"]], cases[entry["b"]]
        why = refusal(a, b)
        if entry["verdict"] == "not compared":
            why = why or shown(entry["why"] or "the run gives no reason")
        verdict = "not compared" if why else entry["verdict"]
        numbers = [None if why else entry[key] for key in ("ratio", "low", "high", "confidence")]
        if verdict == "no difference":
            numbers[0] = None
        found.append(Ratio(run, a, b, entry["figure"], *numbers, verdict=verdict, why=why))
    return found


def refusal(a: Case, b: Case) -> Optional[str]:
    """Why no figure of one may be divided by the other's, or None."""
    for case in (a, b):
        name, parity = shown(case["name"]), case["parity"]
        if case["error"]:
            return f"{name} failed"
        if parity["passed"] is False:
            return f"parity of {name} failed: {shown(parity['what'])}"
        if parity["passed"] is None:
            return f"parity of {name} was not checked"
        if case["summary"] is None:
            return f"{name} has no finished round"
    return None


def in_words(found: Ratio) -> str:
    """The finding as a sentence of its own."""
    a, b = shown(found.a["name"]), shown(found.b["name"])
    what = figures.label(found.figure)
    if found.why:
        return f"{b} against {a}, {what}: not compared, {found.why}"
    if found.ratio is None:
        return (
            f"{b} against {a}, {what}: no difference beyond noise "
            f"(ratio {found.low:.3f} to {found.high:.3f})"
        )
    return (
        f"{b} takes {found.ratio:.3f} times the time of {a} "
        f"({found.low:.3f} to {found.high:.3f}), {what}"
    )


def between_backends(run: Run) -> List[Ratio]:
    """Comparisons of TensorRT with ONNX Runtime over the same model."""
    return [
        found
        for found in ratios(run)
        if {found.a["backend"], found.b["backend"]} == {"trt", "ort"}
        and found.a["model"]["name"] == found.b["model"]["name"]
    ]
