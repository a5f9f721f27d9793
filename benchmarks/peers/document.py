"""A series as a document: the same schema as `edgeformer bench`, of kind "peers"."""

from pathlib import Path
from typing import Any, Dict, List, Sequence

import edgeformer
from benchmarks.peers.engines import Chosen
from benchmarks.peers.forms import digest, size_of
from benchmarks.peers.series import WINDOW, Case, Series, parity
from edgeformer.bench import conditions
from edgeformer.bench.cases import model_of
from edgeformer.bench.document import FORMAT
from edgeformer.bench.measure import thinned
from edgeformer.bench.statistics import median
from edgeformer.bench.summary import compared, summary
from edgeformer.bundle import Bundle

WEIGHTS = (".safetensors", ".gguf", ".bin", ".onnx", ".onnx.data", ".onnx_data")


def document_of(
    series: Series, pairs: Sequence[Sequence[Chosen]], confidence: float, about: Dict[str, Any]
) -> Dict[str, Any]:
    """`about`: what only the command knows: made, seconds, command, machine, probed."""
    settings = series.settings
    cases = {case.name: case_of(case, series) for case in series.cases}
    machine = dict(about["machine"], bandwidth_bytes_per_s=_bandwidth(cases, about["probed"]))
    told = [case.versions for case in series.cases if case.chosen.engine == "edgeformer"]
    machine["packages"] = conditions.packages([{"packages": versions} for versions in told])
    died = any(case.error is not None for case in series.cases)
    return {
        "format": FORMAT,
        "kind": "peers",
        "made": about["made"],
        "seconds": about["seconds"],
        "command": about["command"],
        "edgeformer": edgeformer.__version__,
        "commit": conditions.commit(),
        "complete": series.complete and not died,
        "machine": machine,
        "settings": {
            "rounds": settings.rounds,
            "new_tokens": settings.new_tokens,
            "prompt_tokens": settings.prompt_tokens,
            "rows": settings.prompt_tokens[1:],
            "seed": 0,
            "confidence": confidence,
        },
        "cases": list(cases.values()),
        "comparisons": [
            entry for a, b in pairs for entry in _compared(cases[a.name], cases[b.name], confidence)
        ],
        "samples": thinned(series.monitor.samples),
    }


def case_of(case: Case, series: Series) -> Dict[str, Any]:
    chosen = case.chosen
    ours = chosen.engine == "edgeformer"
    version = case.versions.get(next(iter(case.versions), ""), "not told")
    return {
        "name": case.name,
        "backend": "ort" if ours else chosen.engine,
        "precision": chosen.precision,
        "threads": series.settings.threads,
        "engine": None
        if ours
        else {
            "name": chosen.engine,
            "version": version,
            "model_file": Path(case.place).name if case.place else None,
            "options": chosen.kind.options,
            "environment": case.versions,
        },
        "model": _model(case, series),
        "parity": parity(case, series.reference),
        "error": case.error,
        "rounds": case.rounds,
        "summary": summary(case.rounds),
    }


def _model(case: Case, series: Series) -> Dict[str, Any]:
    keys = ("perplexity", "reference_perplexity", "kl", "top1")
    quality = {key: case.quality[key] for key in keys} if case.quality else None
    if case.place and case.chosen.engine == "edgeformer" and case.rounds:
        return dict(model_of(Bundle.open(case.place), case.chosen.precision), quality=quality)
    place = Path(case.place) if case.place else None
    files = [] if place is None else [place] if place.is_file() else list(place.rglob("*"))
    weights = [path for path in files if path.name.endswith(WEIGHTS)]
    return {
        "name": series.forms.model.stem,
        "parameters": None,
        "weights_bytes": sum(map(size_of, weights)),
        "files_bytes": size_of(place) if place else 0,
        "sha256": digest(place) if place else series.forms.sha256,
        "precision": case.chosen.precision,
        "dialect": None,
        "capacity": series.settings.capacity,
        "chunk": None,
        "quality": quality,
    }


def _bandwidth(cases: Dict[str, Any], probed: Dict[str, Any]) -> Any:
    """At the beginning of the first round and of the last."""
    rounds = [turn for case in cases.values() for turn in case["rounds"]]
    found = [turn["bandwidth_bytes_per_s"] for turn in sorted(rounds, key=lambda t: t["order"])]
    if not found:
        return None
    return dict(probed, at_start=found[0], at_end=found[-1])


def _compared(a: Dict[str, Any], b: Dict[str, Any], confidence: float) -> List[Dict[str, Any]]:
    """The figures of a pair. A speed never stands without what it costs in quality."""
    lengths = list(a["rounds"][0]["first_token_s"]) if a["rounds"] else []
    rows = list(a["rounds"][0]["rows_s"]) if a["rounds"] else []
    names = ["token_s", *(f"rows_s/{n}" for n in rows), *(f"first_token_s/{n}" for n in lengths)]
    found = []
    for name in [*names, "load_s", "peak_rss_bytes"]:
        verdict = compared(a, b, name, confidence)
        told = [verdict.why] if verdict.why else []
        qualities = [case["model"]["quality"] for case in (a, b)]
        if all(qualities) and verdict.verdict != "not compared":
            kls = " and ".join(f"{quality['kl']:.5f}" for quality in qualities)
            told.append(f"KL from float32 {kls} nats")
        entry = dict(verdict._asdict(), why="; ".join(told) or None)
        found.append(dict(entry, a=a["name"], b=b["name"], figure=name))
    return found


def text_of(document: Dict[str, Any]) -> str:
    """A Markdown table of the engines and one line for each thing that was compared."""
    lines = [_conditions(document), "", _row(_head(document))]
    lines.append(_row(["---"] * len(_head(document))))
    lines += [_row(_cells(case, document)) for case in document["cases"]]
    lines += [""] + [
        f"**{case['name']}** died: {case['error']}\n" for case in document["cases"] if case["error"]
    ]
    failed = [case for case in document["cases"] if case["parity"]["passed"] is not True]
    lines += [f"**{c['name']}**: parity not shown: {c['parity']['what']}\n" for c in failed]
    lines += [_row(["a", "b", "figure", "b / a", "verdict"]), _row(["---"] * 5)]
    lines += _verdicts(document["comparisons"])
    if not document["complete"]:
        lines += ["", "NOT COMPLETE: not every round of every engine was measured."]
    return "\n".join(lines) + "\n"


def _conditions(document: Dict[str, Any]) -> str:
    machine, settings = document["machine"], document["settings"]
    rounds = [turn for case in document["cases"] for turn in case["rounds"]]
    probed = [turn["bandwidth_bytes_per_s"] / 1e9 for turn in rounds]
    loads = [turn["load_average"] for turn in rounds]
    told = "no round ended"
    if rounds:
        told = (
            f"read bandwidth {min(probed):.1f} to {max(probed):.1f} GB/s (median "
            f"{median(probed):.1f}), load average {min(loads):.1f} to {max(loads):.1f}"
        )
    threads = document["cases"][0]["threads"]
    return (
        f"{document['made']}, {machine['processor']}, {machine['cpus']} CPUs, {threads} threads; "
        f"{settings['rounds']} rounds of fresh processes; {settings['new_tokens']} new tokens; "
        f"quality on windows of {WINDOW} tokens; {told}, huge pages {machine['huge_pages']}. "
        "Figures: median of the rounds' medians [lowest, highest]."
    )


def _head(document: Dict[str, Any]) -> List[str]:
    lengths = document["settings"]["prompt_tokens"]
    head = ["engine", "MB", "KL, nats", "top-1", "perplexity", "equal tokens"]
    head += [f"first token after {n}, ms" for n in lengths]
    return head + [f"tokens/s after {n}" for n in lengths] + ["load, s", "peak RSS, MB"]


def _cells(case: Dict[str, Any], document: Dict[str, Any]) -> List[str]:
    quality, found = case["model"]["quality"], case["summary"]
    cells = [case["name"], f"{case['model']['weights_bytes'] / 1e6:.0f}"]
    cells += (
        [f"{quality['kl']:.5f}", f"{quality['top1']:.1%}", f"{quality['perplexity']:.4g}"]
        if quality
        else [""] * 3
    )
    words = case["parity"]["what"].split("; ")
    cells.append(", ".join(part.split(" greedy")[0] for part in words if "greedy" in part))
    lengths = list(map(str, document["settings"]["prompt_tokens"]))
    if found is None:
        return cells + ["-"] * (2 * len(lengths) + 2)
    cells += [_span(found["first_token_s"][n], 1e3) for n in lengths]
    steps = [found["token_s"]] + [found["rows_s"][n] for n in lengths[1:]]
    cells += [_span(_inverse(step), 1) for step in steps]
    return [*cells, _span(found["load_s"], 1), f"{found['peak_rss_bytes']['median'] / 1e6:.0f}"]


def _inverse(figure: Dict[str, float]) -> Dict[str, float]:
    """Seconds a token as tokens a second."""
    low, high = 1 / figure["high"], 1 / figure["low"]
    return {"median": 1 / figure["median"], "low": low, "high": high}


def _span(figure: Dict[str, float], factor: float) -> str:
    middle, low, high = (_digits(figure[key] * factor) for key in ("median", "low", "high"))
    return f"{middle} [{low}, {high}]"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _verdicts(entries: Sequence[Dict[str, Any]]) -> List[str]:
    """A line for each figure; one for a pair that nothing was told of, for one reason."""
    lines = []
    for pair in dict.fromkeys((entry["a"], entry["b"]) for entry in entries):
        own = [entry for entry in entries if (entry["a"], entry["b"]) == pair]
        if own[0]["verdict"] == "not compared" and len({entry["why"] for entry in own}) == 1:
            own = [dict(own[0], figure="all")]
        lines += [_row(_verdict(entry)) for entry in own]
    return lines


def _verdict(entry: Dict[str, Any]) -> List[str]:
    between = ""
    if entry["low"] is not None:
        between = f"{entry['low']:.3f} to {entry['high']:.3f} ({entry['confidence']:.1%})"
        between = f"{entry['ratio']:.3f}, {between}" if entry["ratio"] else between
    verdict = entry["verdict"] + (f": {entry['why']}" if entry["why"] else "")
    return [entry["a"], entry["b"], entry["figure"], between, verdict]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
