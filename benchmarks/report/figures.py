"""The figures of a case: how they are found, called and written."""

import math
from typing import Any, Dict, List, NamedTuple, Optional

from report.runs import shown

Found = Dict[str, Any]  # median, low, high, n


class Kind(NamedTuple):
    """`scale` times the SI value is what is shown in `unit`; `less`: whether less is better."""

    label: str
    unit: str
    scale: float
    less: bool


KINDS = {
    "token_s": Kind("time per token", "ms", 1e3, True),
    "tokens_per_s": Kind("tokens per second", "/s", 1.0, False),
    "first_token_s": Kind("time to first token", "ms", 1e3, True),
    "prefill_tokens_per_s": Kind("prefill tokens per second", "/s", 1.0, False),
    "rows_s": Kind("time per token at rows in use", "ms", 1e3, True),
    "load_s": Kind("load time", "ms", 1e3, True),
    "warmup_s": Kind("warm-up", "ms", 1e3, True),
    "outside_s": Kind("host time outside the step", "ms", 1e3, True),
    "peak_rss_bytes": Kind("peak memory of the process", "MB", 1e-6, True),
    "available_low_bytes": Kind("lowest free memory", "MB", 1e-6, False),
    "energy_j_per_token": Kind("energy per token", "mJ", 1e3, True),
}


def kind(figure: str) -> Optional[Kind]:
    return KINDS.get(figure.partition("/")[0])


def label(figure: str) -> str:
    """The name of a figure such as first_token_s/16, for a reader."""
    name, _, part = figure.partition("/")
    known = KINDS.get(name)
    if known is None:
        return shown(figure)
    told = {"first_token_s": "prompt of %s", "prefill_tokens_per_s": "prompt of %s"}
    suffix = told.get(name, "%s") % shown(part)
    return f"{known.label}, {suffix}" if part else known.label


def value(case: Dict[str, Any], figure: str) -> Optional[Found]:
    """{"median", "low", "high", "n"} of a figure, or None where it was not measured."""
    name, _, part = figure.partition("/")
    found = (case["summary"] or {}).get(name)
    if part:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) and "median" in found else None


def parts(case: Dict[str, Any], name: str) -> List[str]:
    """The keys of a figure that has one value for each prompt length or number of rows."""
    found = (case["summary"] or {}).get(name) or {}
    return sorted(found, key=lambda key: (not key.isdigit(), len(key), key))


def digits(number: float) -> str:
    """Three significant digits, never an exponent where a reader would stumble over it."""
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else str(number)
    size = abs(number)
    if size >= 1e7 or size < 1e-4:
        return f"{number:.2e}"
    if size >= 100:
        return f"{number:.0f}"
    return f"{number:.{2 - math.floor(math.log10(size))}f}"


def with_unit(number: Optional[float], figure: str) -> str:
    known = kind(figure)
    if number is None or known is None:
        return "–"
    return f"{digits(number * known.scale)} {known.unit}"


def with_range(found: Optional[Found], figure: str) -> str:
    """Median and, in brackets, the rounds' lowest and highest."""
    known = kind(figure)
    if found is None or known is None:
        return "–"
    low, high = (digits(found[end] * known.scale) for end in ("low", "high"))
    return f"{with_unit(found['median'], figure)} ({low}–{high})"


def megabytes(count: float) -> str:
    return f"{digits(count / 1e6)} MB"


def share(number: Optional[float]) -> str:
    return "–" if number is None else f"{100 * number:.3g} %"
