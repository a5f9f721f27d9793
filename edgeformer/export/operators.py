"""Whether a graph of ours keeps to dialect `portable`: the operators of TensorRT 8.2, no BOOL, and
INT64 only where ONNX asks for sizes. The rules are those of `edgeformer.export.lint`."""

from __future__ import annotations

import onnx

from edgeformer.errors import CheckFailed
from edgeformer.export.lint import ERROR, Finding, lint_model
from edgeformer.export.lint.reading import with_types
from edgeformer.targets import Parser, parser_for

TENSORRT_8_2 = parser_for("8.2")
FIRST = ("op-missing", "domain")


def check_operators(model: onnx.ModelProto, parser: Parser = TENSORRT_8_2) -> list[Finding]:
    """All findings, unknown operators alone where there are any: their types cannot be inferred."""
    found = lint_model(model, parser, portable=True)
    unknown = [finding for finding in found if finding.rule in FIRST]
    if unknown:
        return [finding for finding in found if not finding.node and not finding.operator] + unknown
    try:
        typed = with_types(model, strict=True)
    except onnx.shape_inference.InferenceError as error:
        raise CheckFailed(f"the types of graph {model.graph.name} do not fit: {error}") from error
    found = lint_model(typed, parser, portable=True)
    return [finding for finding in found if finding.severity == ERROR or finding.rule == "ir"]
