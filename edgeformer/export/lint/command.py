"""`python -m edgeformer.export lint FILE.onnx`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import onnx

from edgeformer.export.lint.engine import lint_model, opset_of
from edgeformer.export.lint.finding import ERROR, NOTE, Finding, Group, grouped
from edgeformer.export.lint.reading import read_model
from edgeformer.targets import Parser, Target, parser_for, parser_of_target, target_named

SHOWN_NODES = 3
SHOWN_CHARACTERS = 160


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 no error, 1 errors. An unreadable file is an EdgeformerError."""
    options = _parser().parse_args(arguments)
    target, parser = _what(options)
    model = read_model(Path(options.file))
    findings = lint_model(model, parser, target=target)
    errors = sum(finding.severity == ERROR for finding in findings)
    if options.json:
        print(json.dumps(_document(options.file, model, target, parser, findings), indent=1))
    else:
        print(_text(options.file, model, target, parser, findings))
    return 1 if errors else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.export lint",
        description="Say what a TensorRT version would refuse in an ONNX file, any exporter's: "
        "which nodes, the PyTorch modules behind them, why, and what to write instead. External "
        "data is neither needed nor read. Exit 0: no error. 1: errors. 2: the file is unreadable.",
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE.onnx", help="what to look at")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--target", metavar="NAME", help="jetson-nano (default: TensorRT 8.2) or jetson-orin-nano"
    )
    which.add_argument("--tensorrt", metavar="VERSION", help="8.2, 8.5, 8.6, 10, or such as 10.3")
    parser.add_argument("--json", action="store_true", help="every finding, as one JSON document")
    return parser


def _what(options: argparse.Namespace) -> tuple[Target | None, Parser]:
    if options.tensorrt is not None:
        return None, parser_for(options.tensorrt)
    target, _ = target_named(options.target or "jetson-nano")
    return target, parser_of_target(target)


def _document(
    file: str,
    model: onnx.ModelProto,
    target: Target | None,
    parser: Parser,
    findings: list[Finding],
) -> dict[str, object]:
    return {
        "file": file,
        "opset": opset_of(model),
        "ir_version": model.ir_version,
        "nodes": len(model.graph.node),
        "target": None if target is None else target.name,
        "tensorrt": parser.title,
        "errors": sum(finding.severity == ERROR for finding in findings),
        "notes": sum(finding.severity == NOTE for finding in findings),
        "findings": [finding.as_json() for finding in findings],
    }


def _text(
    file: str,
    model: onnx.ModelProto,
    target: Target | None,
    parser: Parser,
    findings: list[Finding],
) -> str:
    whom = f"TensorRT {parser.title}" + (f", {target.name}" if target is not None else "")
    lines = [
        f"{_plain(file)}: opset {opset_of(model)}, IR {model.ir_version}, "
        f"{len(model.graph.node)} nodes; against {whom}"
    ]
    groups = grouped(findings)
    for group in groups:
        lines += _lines(group)
    errors = sum(finding.severity == ERROR for finding in findings)
    kinds = sum(group.first.severity == ERROR for group in groups)
    if errors:
        lines.append(
            f"{errors} errors of {kinds} kinds: TensorRT {parser.title} refuses or misreads them"
        )
    else:
        lines.append(f"no error: nothing that TensorRT {parser.title} is known to refuse")
    return "\n".join(lines)


def _lines(group: Group) -> list[str]:
    """What is wrong and how often; the way out; the first nodes."""
    first, count = group.first, len(group.findings)
    name = f" {first.operator} x {count}" if first.operator else ""
    head = f"{first.severity} {first.rule}{_plain(name)}: {_plain(first.fact)}"
    others = len({finding.fact for finding in group.findings}) - 1
    lines = [head + (f" (and {others} more like it)" if others else "")]
    if first.rewrite:
        lines.append(f"    instead: {first.rewrite}")
    if first.since:
        lines.append(f"    first in TensorRT {first.since}")
    nodes = [_place(finding) for finding in group.findings[:SHOWN_NODES] if finding.operator]
    if nodes:
        rest = f" and {count - len(nodes)} more" if count > len(nodes) else ""
        lines.append(f"    at {', '.join(nodes)}{rest}")
    return lines


def _place(finding: Finding) -> str:
    """The module, which a person can open, before the node, which only the file knows."""
    node = finding.node or "a node without a name"
    return _plain(f"{finding.module} [{node}]" if finding.module else node)


def _plain(text: str) -> str:
    """Nothing in a file may move a terminal's cursor."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
