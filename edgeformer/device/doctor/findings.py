"""What one check says."""

from typing import Any, Dict, List, NamedTuple

OK, NOTE, PROBLEM, BLOCKS = "ok", "note", "problem", "blocks"
STATUSES = (OK, NOTE, PROBLEM, BLOCKS)


class Finding(NamedTuple):
    """One fact. `why` it matters and the command that `fix`es it are empty where all is well.

    note: runs, and could run better. problem: something of it will not work. blocks: no bundle
    runs here before this is put right.
    """

    topic: str
    status: str
    fact: str
    why: str = ""
    fix: str = ""


def as_json(findings: List[Finding]) -> Dict[str, Any]:
    """For `--json`: how many of each status, and the findings in order."""
    counts = {status: sum(f.status == status for f in findings) for status in STATUSES}
    return {"format": 1, "counts": counts, "findings": [dict(f._asdict()) for f in findings]}


def described(findings: List[Finding]) -> str:
    """For a terminal: a line for each fact, and why and fix under those that need one."""
    indent = max(len(finding.topic) for finding in findings) + 2
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:8}{finding.topic:{indent}}{finding.fact}")
        margin = " " * (8 + indent)
        lines += [f"{margin}why: {finding.why}"] if finding.why else []
        lines += [f"{margin}fix: {finding.fix}"] if finding.fix else []
    return "\n".join(lines) + "\n"
