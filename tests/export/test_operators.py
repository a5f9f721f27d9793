"""The operator table, and the check of a graph against it."""

import onnx
import pytest
from onnx import TensorProto, helper

from edgeformer.errors import CheckFailed
from edgeformer.export.lint.table import operator_table
from edgeformer.export.operators import TENSORRT_8_2, check_operators

FLOAT, BOOL, INT64, INT32 = (
    TensorProto.FLOAT,
    TensorProto.BOOL,
    TensorProto.INT64,
    TensorProto.INT32,
)


def model_of(*nodes, inputs=(), outputs=(), constants=(), opset=13, ir=8):
    """A graph of named nodes; inputs and outputs as (name, type), all of shape [4]."""

    def values(pairs):
        return [helper.make_tensor_value_info(name, kind, [4]) for name, kind in pairs]

    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), constants)
    domains = {node.domain for node in nodes} - {""}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir)


def relu(name="n"):
    return helper.make_node("Relu", ["x"], ["y"], name)


def facts(model):
    return [(f.node, f.operator, f.fact) for f in check_operators(model)]


def test_the_table_is_the_one_of_8_2():
    table = operator_table("8.2")
    assert len(table) == 200
    assert sum(operator.supported for operator in table.values()) == 130
    assert table["Softmax"].supported
    assert table["Softmax"].types == {"FP32", "FP16"}
    for name in ("Trilu", "LayerNormalization", "Attention", "NonZero", "Mod", "GridSample"):
        assert not table[name].supported, name
    assert operator_table("8.5")["Trilu"].supported
    assert not operator_table("8.5")["LayerNormalization"].supported
    assert operator_table("10.1")["LayerNormalization"].supported


def test_a_clean_graph_has_no_finding():
    assert check_operators(model_of(relu(), inputs=[("x", FLOAT)], outputs=[("y", FLOAT)])) == []


@pytest.mark.parametrize(
    ("opset", "ir", "text"),
    [(14, 8, "opset 14; it may be at most 13"), (13, 9, "IR version 9; it may be at most 8")],
)
def test_newer_versions_are_found(opset, ir, text):
    model = model_of(relu(), inputs=[("x", FLOAT)], outputs=[("y", FLOAT)], opset=opset, ir=ir)
    assert facts(model) == [("", "", text)]
    assert check_operators(model)[0].text() == text


@pytest.mark.parametrize(
    ("operator", "domain", "part"),
    [
        ("Trilu", "", "not in TensorRT 8.2"),
        ("LayerNormalization", "", "opset-17 op"),
        ("Invented", "", "no such operator"),
        ("GroupQueryAttention", "com.microsoft", "domain com.microsoft"),
        ("Relu", "com.microsoft", "domain com.microsoft"),
    ],
)
def test_unknown_operators_are_named_with_their_module(operator, domain, part):
    node = helper.make_node(operator, ["x"], ["y"], "blocks.1/ff/Thing", domain=domain)
    (finding,) = check_operators(model_of(node, inputs=[("x", FLOAT)], outputs=[("y", FLOAT)]))
    text = finding.text(lambda name: f"module of {name}")
    assert text.startswith(f"{operator} (node blocks.1/ff/Thing, made by module of blocks.1/ff/")
    assert part in text


def test_bool_is_found_although_tensorrt_parses_it():
    nodes = [
        helper.make_node("Greater", ["x", "x"], ["b"], "compare"),
        helper.make_node("Where", ["b", "x", "x"], ["y"], "choose"),
    ]
    found = facts(model_of(*nodes, inputs=[("x", FLOAT)], outputs=[("y", FLOAT)]))
    assert [(node, operator) for node, operator, _ in found] == [
        ("compare", "Greater"),
        ("choose", "Where"),
    ]
    assert all("b is BOOL" in fact for _, _, fact in found)


def test_int64_is_for_sizes_only():
    starts, ends = (
        helper.make_tensor(name, INT64, [1], [i]) for i, name in enumerate(("starts", "ends"))
    )
    slice_ = helper.make_node("Slice", ["x", "starts", "ends"], ["y"], "s")
    good = model_of(slice_, inputs=[("x", FLOAT)], constants=[starts, ends])
    good.graph.output.add(name="y")
    good.graph.output[0].type.tensor_type.elem_type = FLOAT
    assert check_operators(good) == []
    add = helper.make_node("Add", ["x", "x"], ["y"], "a")
    (found, *_) = facts(model_of(add, inputs=[("x", INT64)], outputs=[("y", INT64)]))
    assert found == ("a", "Add", "tensor x is INT64, not FP16 FP32 INT32")


def test_axes_that_are_computed_are_found():
    node = helper.make_node("Unsqueeze", ["x", "axes"], ["y"], "u")
    model = model_of(node, inputs=[("x", FLOAT)])
    model.graph.input.append(helper.make_tensor_value_info("axes", INT64, [1]))
    model.graph.output.add(name="y")
    model.graph.output[0].type.tensor_type.elem_type = FLOAT
    assert facts(model) == [("u", "Unsqueeze", "input 1 must be a constant")]


def test_a_type_that_an_operator_lacks_is_found():
    node = helper.make_node("Pow", ["x", "x"], ["y"], "p")
    found = facts(model_of(node, inputs=[("x", INT32)], outputs=[("y", INT32)]))
    assert ("p", "Pow", "tensor x is INT32, not FP16 FP32") in found


def test_types_that_do_not_fit_are_a_failed_check():
    node = helper.make_node("Add", ["x", "z"], ["y"], "a")
    wrong = model_of(node, inputs=[("x", FLOAT), ("z", INT32)], outputs=[("y", FLOAT)])
    with pytest.raises(CheckFailed, match="graph g"):
        check_operators(wrong)


def test_limits_are_those_of_the_jetson_nano():
    assert (TENSORRT_8_2.version, TENSORRT_8_2.opset.value, TENSORRT_8_2.ir.value) == ("8.2", 13, 8)
    assert onnx.defs.onnx_opset_version() > 13, "the exporter must be asked for 13"
