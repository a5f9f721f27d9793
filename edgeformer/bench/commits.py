"""The commits of this clone and their times: was something made with one of them, and when?"""

import calendar
import os
import subprocess
import time
from typing import Dict, NamedTuple, Optional

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAMP = "%Y-%m-%dT%H:%M:%SZ"


class History(NamedTuple):
    """`times`: when each commit was made, in the form of a document's `made`; {} where this is no
    clone or there is no git. `whole`: False where older commits may be missing."""

    times: Dict[str, str]
    whole: bool


NOTHING = History({}, False)


def history(folder: str = _ROOT) -> History:
    """The commits of every branch here."""
    if not os.path.exists(os.path.join(folder, ".git")):
        return NOTHING  # a copy; a clone around it is another project's
    listed = _git(folder, "log", "--all", "--date=format-local:" + STAMP, "--format=%H %cd")
    pairs = [line.split() for line in listed.splitlines()]
    times = {pair[0]: pair[1] for pair in pairs if len(pair) == 2}
    whole = bool(times) and _git(folder, "rev-parse", "--is-shallow-repository").strip() == "false"
    return History(times, whole)


def seconds_of(stamp: str) -> Optional[int]:
    """Seconds since 1970 of a `made`; None of what is no day or no time of a day."""
    try:
        return calendar.timegm(time.strptime(stamp, STAMP))
    except ValueError:
        return None


def _git(folder: str, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words],
            env=dict(os.environ, TZ="UTC"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return ""  # no git here
    return done.stdout.decode("ascii", "replace") if done.returncode == 0 else ""
