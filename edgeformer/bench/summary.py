"""Rounds to figures, and cases to comparisons: the part of the document that people read."""

from typing import Any, Callable, Dict, List, Optional, Sequence

from edgeformer.bench import statistics as st

Round = Dict[str, Any]
Figure = Optional[Dict[str, Any]]


def summary(rounds: Sequence[Round]) -> Optional[Dict[str, Any]]:
    """Each figure is the median of the rounds' medians, with the lowest and highest round."""
    if not rounds:
        return None
    firsts = _keyed(rounds, "first_token_s")
    tokens = [value for turn in rounds for value in turn["token_s"]]
    token_s = figure([st.median(turn["token_s"]) for turn in rounds])
    assert token_s is not None
    token_s.update(
        p95=st.quantile(tokens, 0.95), p99=st.quantile(tokens, 0.99), spread=st.spread(tokens)
    )
    return {
        "load_s": _of(rounds, lambda turn: turn["load_s"]),
        "warmup_s": _of(rounds, lambda turn: turn["warmup_s"]),
        "first_token_s": {key: figure(values) for key, values in firsts.items()},
        "prefill_tokens_per_s": {
            key: figure([int(key) / value for value in values]) for key, values in firsts.items()
        },
        "token_s": token_s,
        # n - 1 intervals between n tokens: neither prompt nor warm-up is among them
        "tokens_per_s": _of(rounds, lambda turn: len(turn["token_s"]) / sum(turn["token_s"])),
        "outside_s": _of(rounds, lambda turn: _median_or_none(turn["outside_s"])),
        "rows_s": {key: figure(values) for key, values in _keyed(rounds, "rows_s").items()},
        "peak_rss_bytes": _of(rounds, lambda turn: turn["peak_rss_bytes"]),
        "available_low_bytes": _of(rounds, lambda turn: turn["available_low_bytes"]),
        "energy_j_per_token": _of(rounds, lambda turn: turn["energy_j_per_token"]),
        "noise": st.spread(figures_of(rounds, "token_s")) if len(rounds) > 1 else None,
        "roofline_share": None,
    }


def figure(values: Sequence[float]) -> Figure:
    """None where there are no values."""
    if not values:
        return None
    return {"median": st.median(values), "low": min(values), "high": max(values), "n": len(values)}


def figures_of(rounds: Sequence[Round], name: str, share: float = 0.5) -> List[float]:
    """A figure of each round: "token_s", "load_s", or one with its key: "rows_s/64". Of several
    times in a round it is this quantile."""
    name, _, key = name.partition("/")
    values = [turn[name].get(key) if key else turn[name] for turn in rounds]
    return [st.quantile(v, share) if isinstance(v, list) else v for v in values if v is not None]


def comparisons(cases: Sequence[Dict[str, Any]], confidence: float) -> List[Dict[str, Any]]:
    """Each case of a document against the first, in every figure that both have."""
    found = []
    for other in cases[1:]:
        first = cases[0]
        for name in _shared(first["rounds"], other["rounds"]):
            verdict = compared(first, other, name, confidence)
            found.append(dict(verdict._asdict(), a=first["name"], b=other["name"], figure=name))
    return found


def compared(
    a: Dict[str, Any], b: Dict[str, Any], name: str, confidence: float = st.CONFIDENCE
) -> st.Verdict:
    """One figure of two cases of one document: no ratio where one is wrong or died."""
    for case in (a, b):
        if case["error"] is not None:
            return st.not_compared(f"{case['name']} died")
        if case["parity"]["passed"] is not True:
            return st.not_compared(f"parity of {case['name']}: {case['parity']['what']}")
    figures = [figures_of(case["rounds"], name, st.FLOOR) for case in (a, b)]
    return st.compare(*figures, confidence=confidence)


def _shared(a: Sequence[Round], b: Sequence[Round]) -> List[str]:
    if not a or not b:
        return ["token_s"]
    names = ["token_s"]
    for name in ("first_token_s", "rows_s"):
        names += [f"{name}/{key}" for key in a[0][name] if key in b[0][name]]
    return names + ["load_s"]


def _keyed(rounds: Sequence[Round], name: str) -> Dict[str, List[float]]:
    return {key: figures_of(rounds, f"{name}/{key}") for key in rounds[0][name]}


def _of(rounds: Sequence[Round], value: Callable[[Round], Optional[float]]) -> Figure:
    return figure([found for found in map(value, rounds) if found is not None])


def _median_or_none(values: Sequence[float]) -> Optional[float]:
    return st.median(values) if values else None
