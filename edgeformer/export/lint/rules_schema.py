"""Rules of ONNX itself about one node, which parsers rely on: inputs, attributes, equal types."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from edgeformer.export.lint.graph import Site
from edgeformer.export.lint.rule import Problem, rule

AGAIN = "export it again, or repair the node: onnx.checker.check_model says what ONNX asks for"


@rule("schema", title="inputs, outputs or attributes that are missing or too many")
def _schema(site: Site) -> Iterator[Problem]:
    schema = _of(site)
    if schema is None:
        return
    node, opset = site.node, site.opset
    for what, given_here, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= given_here <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            yield Problem(f"{given_here} {what}; opset {opset} wants {wanted}", AGAIN)
    given = {attribute.name for attribute in node.attribute}
    missing = [a.name for a in schema.attributes.values() if a.required and a.name not in given]
    if missing:
        yield Problem(f"the attribute {missing[0]} is missing", AGAIN)
    unknown = sorted(given - set(schema.attributes))
    if unknown:
        fact = (
            f"opset {opset} has no attribute {unknown[0]}: it is not read, or read as it once was"
        )
        yield Problem(fact, AGAIN)


@rule("mixed-types", title="inputs of different types where ONNX and TensorRT want one")
def _mixed(site: Site) -> Iterator[Problem]:
    schema = _of(site)
    if schema is None:
        return
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    seen: dict[str, str] = {}  # type variable of the schema -> the input that it was bound by
    for i, name in enumerate(site.node.input):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)] if schema.inputs else None
        if formal is None or formal.type_str not in variables or not formal.is_homogeneous:
            continue
        first = seen.setdefault(formal.type_str, name) if site.type(name) else ""
        if not first or site.element(first) == site.element(name):
            continue
        one, other = site.type(first), site.type(name)
        if one != other:
            fact = f"{first} is {one} and {name} is {other}"
            yield Problem(fact, "cast one of them to the type of the other")
            return


@rule(
    "index-type",
    "Gather",
    "GatherElements",
    "GatherND",
    "ScatterND",
    "ScatterElements",
    title="indices that are no integers",
)
def _index(site: Site) -> Iterator[Problem]:
    found = site.type(site.input(1))
    if found and found not in ("INT32", "INT64"):
        yield Problem(f"the indices {site.input(1)} are {found}", "cast them to INT32")


def _of(site: Site) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(site.node.op_type, site.opset, "")
    except onnx.defs.SchemaError:  # newer than this onnx, or never ONNX's: other rules say so
        return None
