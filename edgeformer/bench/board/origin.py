"""Was a report made with code that others can get, and at a time at which it can have been?"""

import time
from typing import Any, Dict, Iterator, List, Optional

from edgeformer.bench.commits import STAMP, History, seconds_of

APART_S = 600  # by which two machines' clocks may differ

Value = Dict[str, Any]


def reasons(report: Value, history: History, now: Optional[float] = None) -> List[str]:
    """What speaks against its commit and its times. `now`: seconds since 1970."""
    now = time.time() if now is None else now
    found = []
    if _is_unknown(report, history) and history.whole:
        found.append(
            f"its commit {report['commit']} is unknown: this repository's history does not hold "
            "it; measure with a commit of it, so that others can do the same"
        )
    committed = seconds_of(history.times.get(_commit(report), ""))
    found += _times(report["made"], "it", committed, now)
    for bundle in report["bundles"]:
        if bundle["bench"] is not None:
            name = f"{bundle['model']['name']}: its measuring"
            found += _times(bundle["bench"]["made"], name, committed, now)
            found += _order(bundle["bench"]["made"], report["made"], name)
    return list(dict.fromkeys(found))


def unknown(report: Value, history: History) -> Optional[str]:
    """What could not be looked up here, and how it can be; None where everything was."""
    if not _is_unknown(report, history) or history.whole:
        return None
    todo = "git fetch --unshallow" if history.times else "do this in a clone of the repository"
    return f"commit {report['commit']} is unknown here, where not all history is: {todo}"


def _is_unknown(report: Value, history: History) -> bool:
    return bool(_commit(report)) and _commit(report) not in history.times


def _commit(report: Value) -> str:
    return str(report["commit"] or "").partition("-")[0]


def _times(made: str, what: str, committed: Optional[int], now: float) -> Iterator[str]:
    at = seconds_of(made)
    if at is None:
        yield f"{what} was made at {made}, which is no time"
    elif at > now + APART_S:
        yield f"{what} was made in the future: {made}, and now it is {_stamp(now)}"
    elif committed is not None and at < committed - APART_S:
        yield (
            f"{what} was made before its commit: {made}, and the commit is of "
            f"{_stamp(committed)}; set the board's clock (sudo date -s ...) and measure again"
        )


def _order(bench: str, report: str, what: str) -> Iterator[str]:
    began, ended = seconds_of(bench), seconds_of(report)
    if began is not None and ended is not None and began > ended + APART_S:
        yield f"{what} began at {bench}, after the whole report was made: {report}"


def _stamp(seconds: float) -> str:
    return time.strftime(STAMP, time.gmtime(seconds))
