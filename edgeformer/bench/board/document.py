"""The document of a report, held against both schemas, and its last form: two files to send."""

import json
import os
from typing import Any, Dict, List, Sequence

from edgeformer import strictjson as js
from edgeformer.bench import document as documents
from edgeformer.bench.board import page
from edgeformer.bench.board.parts import Parts, Say, only_report, write_bytes
from edgeformer.bench.board.work import identity, report_of
from edgeformer.bench.cases import Asked
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError

REPORT, PAGE = "report.json", "report.html"
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.json")


def schema() -> Dict[str, Any]:
    """The JSON Schema of a report."""
    with open(SCHEMA, encoding="ascii") as file:
        found: Dict[str, Any] = json.load(file)
    return found


def check(report: Any, where: str) -> None:
    """EdgeformerError with the first place that is not what the schemas say."""
    root, bench = schema(), documents.schema()
    documents.hold(report, root, root, where)
    machine, model = (bench["definitions"][name] for name in ("machine", "model"))
    documents.hold(report["machine"], machine, bench, f"{where}: machine")
    for bundle in report["bundles"]:
        documents.hold(bundle["model"], model, bench, f"{where}: model")
        if bundle["bench"] is not None:
            documents.check(bundle["bench"], f"{where}: bench of {bundle['model']['name']}")


def read(path: str) -> Dict[str, Any]:
    """The report in a file that nobody vouches for, checked."""
    report = documents.parsed(path)
    check(report, os.path.basename(path))
    return dict(report)


def passed(report: Dict[str, Any]) -> bool:
    """Whether everything was measured and every golden run gave what it must."""
    checks = [check["passed"] for bundle in report["bundles"] for check in bundle["checks"]]
    return bool(report["complete"]) and all(verdict is True for verdict in checks)


def write_report(
    paths: Sequence[str], asked: Asked, folder: str, command: List[str], say: Say
) -> Dict[str, Any]:
    """Do what is not done yet, then write REPORT and PAGE into the folder; the document."""
    bundles = [Bundle.open(path) for path in paths]
    names = [os.path.abspath(path) for path in paths]
    twice = [path for path in names if names.count(path) > 1]
    if twice:
        raise EdgeformerError(f"{twice[0]} is named twice; a report has each bundle once")
    with only_report(folder):
        parts = Parts(folder, identity(bundles, asked), say)
        report = report_of(bundles, asked, parts, command, say)
        check(report, REPORT)
        text = json.dumps(report, allow_nan=False) + "\n"
        js.parse(text.encode("ascii"), REPORT)
        write_bytes(os.path.join(folder, REPORT), text.encode("ascii"))
        write_bytes(os.path.join(folder, PAGE), page.html_of(report).encode("utf-8"))
    return report
