"""Apply the rules to a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import onnx

from edgeformer.export.lint import (
    rules_attributes,  # noqa: F401  the rules put themselves in the list
    rules_constants,  # noqa: F401
    rules_quantization,  # noqa: F401
    rules_schema,  # noqa: F401
    rules_types,  # noqa: F401
)
from edgeformer.export.lint.finding import ERROR, NOTE, Finding
from edgeformer.export.lint.graph import STANDARD, Scope, Site, scopes
from edgeformer.export.lint.origin import origin
from edgeformer.export.lint.rewrites import FUNCTION, FUSED, rewrite_of
from edgeformer.export.lint.rule import RULES, Problem, Rule
from edgeformer.export.lint.table import first_version, operator_table, type_name
from edgeformer.export.lint.whole import check_whole
from edgeformer.targets import PARSERS, Parser, Target

OLDEST_OPSET = 7  # the parser refuses older rules of broadcasting

EVERY = [rule for rule in RULES if not rule.operators]
BY_OPERATOR: dict[str, list[Rule]] = {}
for _rule in RULES:
    for _operator in _rule.operators:
        BY_OPERATOR.setdefault(_operator, []).append(_rule)


@dataclass(frozen=True)
class Context:
    """What a whole run shares."""

    parser: Parser
    opset: int
    portable: bool
    functions: frozenset[tuple[str, str]]


def lint_model(
    model: onnx.ModelProto,
    parser: Parser,
    *,
    target: Target | None = None,
    portable: bool = False,
) -> list[Finding]:
    """All findings, those about the whole file first. Types are what the model says itself:
    infer them before. portable: our own dialect's stricter rules about BOOL and INT64."""
    functions = frozenset((function.domain, function.name) for function in model.functions)
    context = Context(parser, opset_of(model), portable, functions)
    findings = [*_file(model, context, target)]
    findings += [] if portable else [*check_whole(model)]  # the export checks that by itself
    kinds: Counter[str] = Counter()
    for scope in scopes(model):
        for node in scope.nodes:
            findings += _node(node, scope, context)
        kinds.update(type_name(tensor.elem_type) for tensor in scope.types.values())
        kinds["unknown"] += _unknown(scope)
    return findings + ([] if portable else [*_narrowed(kinds, parser)])


def opset_of(model: onnx.ModelProto) -> int:
    """Of the standard operators; 1 where the file does not say."""
    return max((o.version for o in model.opset_import if o.domain in STANDARD), default=1)


def _file(model: onnx.ModelProto, context: Context, target: Target | None) -> Iterator[Finding]:
    parser, opset = context.parser, context.opset
    if model.ir_version > parser.ir.value:
        fact = f"IR version {model.ir_version}; it may be at most {parser.ir.value}"
        why = " (TensorRT only warns, but the Nano's onnxruntime refuses it)"
        fact += why if parser.version == "8.2" and not context.portable else ""
        yield Finding("ir", NOTE, "", "", "", fact, "set model.ir_version")
    if opset > parser.opset.value:
        fact = f"opset {opset}; it may be at most {parser.opset.value}"
        since = next((p.title for p in PARSERS if p.opset.value >= opset), "")
        rewrite = f"torch.onnx.export(..., dynamo=False, opset_version={parser.opset.value})"
        yield Finding("opset", ERROR, "", "", "", fact, rewrite, since)
    if opset < OLDEST_OPSET:
        fact = f"opset {opset}; it must be at least {OLDEST_OPSET}"
        rewrite = "onnx.version_converter.convert_version(model, 13), or export it again"
        yield Finding("opset", ERROR, "", "", "", fact, rewrite)
    if model.functions and not parser.functions:
        fact = f"{len(model.functions)} functions of the model's own, such as "
        fact += model.functions[0].name
        yield Finding("function", ERROR, "", "", "", fact, FUNCTION, "9.0")
    if target is not None and "int8" in target.refused:
        kinds = {node.op_type for node in model.graph.node}
        if kinds & {"QuantizeLinear", "DequantizeLinear"}:
            fact = f"a quantized graph: {target.refused['int8']}"
            yield Finding("int8-hardware", ERROR, "", "", "", fact, "export it in FP32")


def _node(node: onnx.NodeProto, scope: Scope, context: Context) -> Iterator[Finding]:
    parser = context.parser
    operator = operator_table(parser.version).get(node.op_type)
    module = origin(node)
    if node.domain not in STANDARD:
        if (node.domain, node.op_type) not in context.functions:
            fact = f"domain {node.domain}; only standard ONNX operators can be parsed"
            yield Finding("domain", ERROR, node.op_type, node.name, module, fact, FUSED)
        return
    if operator is None or not operator.supported:
        if operator is None:
            fact = f"TensorRT {parser.title} has no such operator"
        else:
            fact = f"not in TensorRT {parser.title}: {operator.restriction or 'no importer'}"
        rewrite, since = rewrite_of(node.op_type), first_version(node.op_type)
        yield Finding("op-missing", ERROR, node.op_type, node.name, module, fact, rewrite, since)
        return
    site = Site(node, scope, context.opset, parser, context.portable)
    for rule in (*EVERY, *BY_OPERATOR.get(node.op_type, ())):
        for problem in rule.check(site):
            severity = NOTE if problem.note else ERROR
            since = "" if problem.note else _since(rule, site)
            yield _finding(rule, severity, node, module, problem, since)


def _finding(
    rule: Rule, severity: str, node: onnx.NodeProto, module: str, problem: Problem, since: str
) -> Finding:
    return Finding(
        rule.id, severity, node.op_type, node.name, module, problem.fact, problem.rewrite, since
    )


def _since(rule: Rule, site: Site) -> str:
    """The first later version against which the rule has nothing."""
    for parser in PARSERS[PARSERS.index(site.parser) + 1 :]:
        if not any(not problem.note for problem in rule.check(replace(site, parser=parser))):
            return parser.title
    return ""


def _unknown(scope: Scope) -> int:
    """Outputs whose type neither the file nor ONNX's inference tells."""
    made = [name for node in scope.nodes for name in node.output if name]
    return sum(name not in scope.types and scope.constant(name) is None for name in made)


def _narrowed(kinds: Counter[str], parser: Parser) -> Iterator[Finding]:
    if kinds["INT64"] and not parser.native_int64:
        fact = f"{kinds['INT64']} tensors are INT64 and become INT32, inputs and outputs too"
        yield Finding("int64", NOTE, "", "", "", fact, "", "9.0")
    if kinds["FP64"]:
        fact = f"{kinds['FP64']} tensors are DOUBLE and become FP32"
        yield Finding("double", NOTE, "", "", "", fact)
    if kinds["unknown"]:
        fact = f"the types of {kinds['unknown']} tensors are unknown and were not checked"
        yield Finding("types-unknown", NOTE, "", "", "", fact)
