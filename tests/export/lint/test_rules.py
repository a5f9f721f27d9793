"""Each rule finds what it should, and leaves alone what only looks like it."""

import numpy as np
import pytest

from edgeformer.export.lint.rule import FILE_RULES, RULES
from edgeformer.targets import PARSERS, TARGETS, parser_for
from tests.export.lint.cases import CASES, axes, quantize, unary
from tests.export.lint.nodes import (
    BF16,
    BOOL,
    F32,
    F64,
    I64,
    errors,
    findings,
    graph,
    model,
    node,
    rules,
)

NAMES = [f"{i}-{rule}-{version}" for i, (rule, version, _, _) in enumerate(CASES)]


@pytest.mark.parametrize(("rule", "version", "bad", "good"), CASES, ids=NAMES)
def test_a_rule_finds_the_bad_and_passes_the_good(rule, version, bad, good):
    assert rule in rules(bad, version)
    if isinstance(good, str):
        assert rule not in rules(bad, good)
    else:
        assert rule not in rules(good, version)


@pytest.mark.parametrize(("rule", "version", "bad", "good"), CASES, ids=NAMES)
def test_the_first_version_that_takes_it_is_named(rule, version, bad, good):
    found = next(f for f in findings(bad, version) if f.rule == rule)
    if found.severity == "note" or rule in ("function", "opset"):
        return
    later = [p for p in PARSERS if PARSERS.index(p) > PARSERS.index(parser_for(version))]
    clean = [p.title for p in later if rule not in rules(bad, p.title)]
    assert found.since == (clean[0] if clean else "")


def test_every_rule_has_a_case():
    listed = {rule for rule, _, _, _ in CASES} | {"int8-hardware"}
    assert listed == {rule.id for rule in RULES} | set(FILE_RULES)
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_every_error_tells_what_to_write_instead():
    for rule, version, bad, _ in CASES:
        for finding in findings(bad, version):
            if finding.severity == "error":
                assert finding.fact
                assert finding.rewrite, (rule, finding)


def test_quantized_graphs_are_for_boards_with_int8():
    made, nano, orin = quantize(), TARGETS["jetson-nano"], TARGETS["jetson-orin-nano"]
    assert "int8-hardware" in rules(made, "8.2", nano)
    assert "int8-hardware" not in rules(made, "8.5", orin)
    assert "int8-hardware" not in rules(made, "8.2")
    assert errors(made, "8.2") == []


def test_a_plain_graph_has_no_finding_in_any_version():
    made = model(node("Relu", "x"), inputs={"x": F32})
    for parser in PARSERS:
        assert findings(made, parser.title) == []


def test_nodes_inside_branches_are_seen_and_outer_values_known():
    """`axes` is a constant and `flag` BOOL, both outside the branch that reads them."""
    inner = graph(
        [
            node("Squeeze", ["one", "axes"], ["s"], "squeeze"),
            node("Gather", ["flag", "axes"], ["b"], "gather"),
            node("Trilu", "x", ["t"], "missing"),
        ],
        outputs=("t",),
        name="then",
    )
    other = graph([node("Relu", "x", ["o"], "other")], outputs=("o",), name="else")
    made = model(
        node("If", "c", then_branch=inner, else_branch=other),
        inputs={"c": (BOOL, []), "x": F32, "one": (F32, [1, 3]), "flag": (BOOL, [2])},
        constants={"axes": np.array([0], np.int64)},
        opset=14,
    )
    found = {f.node: f.rule for f in findings(made) if f.operator}
    assert found == {"missing": "op-missing", "gather": "dtype"}


def test_nodes_of_a_models_own_functions_are_seen():
    from onnx import helper

    body = [node("Trilu", "a", "b", "in-function")]
    function = helper.make_function("own", "F", "a", "b", body, [helper.make_opsetid("", 14)])
    call = node("F", "x", domain="own")
    made = model(call, inputs={"x": F32}, functions=[function], opset=14)
    found = findings(made)
    assert [f.node for f in found if f.rule == "op-missing"] == ["in-function"]
    assert "domain" not in {f.rule for f in found}


def test_each_fault_is_told_once_and_in_the_words_of_the_file():
    assert errors(axes("ReduceMean", True, opset=18), "8.6") == [
        "opset: opset 18; it may be at most 17",
        "reduce-axes: TensorRT 8.6 reads the axes attribute only and would reduce all axes",
    ]
    assert errors(unary("Erf", I64), "10") == ["dtype: tensor x is INT64, not BF16 FP16 FP32"]
    assert errors(unary("Erf", I64)) == [
        "dtype: tensor x is INT64, for TensorRT INT32, not FP16 FP32"
    ]
    assert errors(unary("Erf", F64)) == [], "DOUBLE becomes FP32"


def test_a_type_that_came_later_is_refused_by_an_operator_that_came_before():
    made = model(node("Trilu", "x"), inputs={"x": BF16}, opset=14)
    assert [text.split(":")[0] for text in errors(made, "8.6")] == ["dtype"]
    assert errors(made, "10") == []
