"""Each rule finds what it should, and leaves alone what only looks like it."""

import pytest

from edgeformer.export.lint.rule import FILE_RULES, RULES
from edgeformer.targets import PARSERS, TARGETS, parser_for
from tests.export.lint.cases import CASES, quantize
from tests.export.lint.nodes import F32, errors, findings, graph, model, node, rules

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


def test_nodes_inside_branches_are_seen_and_outer_constants_known():
    inner = graph([node("Trilu", "x", ["t"], "inner")], outputs=("t",), name="then")
    other = graph([node("Relu", "x", ["o"], "other")], outputs=("o",), name="else")
    made = node("If", "c", then_branch=inner, else_branch=other)
    made = model(made, inputs={"c": (9, []), "x": F32}, opset=14)
    assert [f.node for f in findings(made) if f.rule == "op-missing"] == ["inner"]


def test_nodes_of_a_models_own_functions_are_seen():
    from onnx import helper

    body = [node("Trilu", "a", "b", "in-function")]
    function = helper.make_function("own", "F", "a", "b", body, [helper.make_opsetid("", 14)])
    call = node("F", "x", domain="own")
    made = model(call, inputs={"x": F32}, functions=[function], opset=14)
    found = findings(made)
    assert [f.node for f in found if f.rule == "op-missing"] == ["in-function"]
    assert "domain" not in {f.rule for f in found}
