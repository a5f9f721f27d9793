"""What the lint reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

ERROR, NOTE = "error", "note"


@dataclass(frozen=True)
class Finding:
    """One thing that a TensorRT version refuses (error) or does otherwise (note).

    `node` is empty where the whole file is meant; `module` and `since` where nothing is known.
    """

    rule: str
    severity: str
    operator: str
    node: str
    module: str  # the PyTorch module that made the node
    fact: str
    rewrite: str = ""
    since: str = ""  # the first TensorRT version of the table that takes it

    def text(self, module_of: Callable[[str], str] = str) -> str:
        if not self.node:
            return self.fact
        return f"{self.operator} (node {self.node}, made by {module_of(self.node)}): {self.fact}"

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Group:
    """All findings of one rule about one operator."""

    first: Finding
    findings: tuple[Finding, ...]


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Errors first; otherwise in the order of the file."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        key = (finding.severity, finding.rule, finding.operator)
        groups.setdefault(key, []).append(finding)
    ordered = sorted(groups.values(), key=lambda group: group[0].severity != ERROR)
    return [Group(group[0], tuple(group)) for group in ordered]
