"""Products in panels: the same numbers, read where they lie in the file."""

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgeformer.contract import Graph
from edgeformer.errors import EdgeformerError
from edgeformer.export.build import export_decoder
from edgeformer.export.clean import Weight
from edgeformer.export.graphs import Traced
from edgeformer.export.panels import WIDTH, with_panels
from edgeformer.nn.config import ModelConfig
from tests.nn.choices import random_decoder

INNER = 5


def run(nodes, weights, x, output="y"):
    made = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(w.array()), n) for n, w in weights.items()
    ]
    inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": x})[0]


def traced(nodes, weights):
    return Traced(Graph("g.onnx", (), ()), nodes, weights)


@pytest.mark.parametrize("outputs", [1, WIDTH - 1, WIDTH, WIDTH + 1, 3 * WIDTH])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm", "Gemm with a bias"])
def test_a_product_is_the_same_for_any_number_of_outputs(operator, outputs):
    numbers = np.random.default_rng(outputs)
    matrix, bias = (numbers.standard_normal(s, np.float32) for s in ((outputs, INNER), (outputs,)))
    weights = {"w": Weight("w", lambda: matrix), "b": Weight("b", lambda: bias)}
    if operator == "MatMul":
        weights = {"w.transpose": Weight("w.transpose", lambda: matrix.T)}
        nodes = [helper.make_node("MatMul", ["x", "w.transpose"], ["y"], name="p")]
        x = numbers.standard_normal((1, 3, INNER), np.float32)
    else:
        inputs = ["x", "w", "b"] if "bias" in operator else ["x", "w"]
        nodes = [helper.make_node("Gemm", inputs, ["y"], name="p", transB=1)]
        x = numbers.standard_normal((3, INNER), np.float32)
    made = with_panels(traced(nodes, weights), {"w": matrix.shape})
    assert made.weights["w.panels"].array().shape == (-(-outputs // WIDTH), INNER, WIDTH)
    assert "w" not in made.weights and "w.transpose" not in made.weights
    found = run(made.nodes, made.weights, x)
    wanted = x.astype(np.float64) @ matrix.T.astype(np.float64)
    wanted = wanted + bias if "bias" in operator else wanted
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_rows_of_a_tied_table_are_those_of_the_head():
    matrix = np.random.default_rng(0).standard_normal((2 * WIDTH + 3, INNER), np.float32)
    weights = {"w": Weight("w", lambda: matrix)}
    nodes = [
        helper.make_node("Gather", ["w", "x"], ["y"], name="table"),
        helper.make_node("Gemm", ["h", "w"], ["logits"], name="head", transB=1),
    ]
    made = with_panels(traced(nodes, weights), {"w": matrix.shape})
    assert [name for name, w in made.weights.items() if not w.small] == ["w.panels"], "one copy"
    lookup = [node for node in made.nodes if node.name.startswith("table")]
    for ids in ([[0]], [[WIDTH - 1, WIDTH, 2 * WIDTH + 2, 0, 7]]):
        found = run(lookup, made.weights, np.array(ids, np.int32))
        np.testing.assert_array_equal(found, matrix[np.array(ids)])


def test_a_table_that_no_product_reads_stays_a_table():
    matrix = np.ones((4, INNER), np.float32)
    nodes = [helper.make_node("Gather", ["w", "x"], ["y"], name="table")]
    before = traced(nodes, {"w": Weight("w", lambda: matrix)})
    assert with_panels(before, {"w": matrix.shape}) == before


def test_a_product_that_is_turned_the_other_way_is_refused():
    weights = {"w.transpose": Weight("w.transpose", lambda: np.ones((4, INNER), np.float32))}
    nodes = [helper.make_node("Gemm", ["x", "w.transpose"], ["y"], name="p", transB=1)]
    with pytest.raises(EdgeformerError, match=r"p \(Gemm\) reads w.transpose turned round"):
        with_panels(traced(nodes, weights), {"w": (INNER, 4)})


MEASURE = """
import json, sys
from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.device.memory import process_memory

def anonymous():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))

bundle = Bundle.open(sys.argv[1])
import onnxruntime
before = anonymous()
backend = open_backend(bundle, "ort", 1)
for at in range(3):
    backend.step([1], [at], [0], "token")
print(json.dumps([anonymous() - before, process_memory().rss_bytes]))
"""


@pytest.mark.slow
def test_float_weights_are_mapped_and_never_copied(tmp_path):
    config = ModelConfig(
        vocab_size=4096, d_model=512, n_layers=6, n_heads=8, d_ff=1536, max_positions=64
    )
    export_decoder(
        random_decoder(config, 1, 0.02), tmp_path / "b", name="wide", capacity=64, target="cpu"
    )
    size = (tmp_path / "b" / "weights.bin").stat().st_size
    assert size > 80e6
    told = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path / "b")], check=True, capture_output=True
    )
    grown, whole = json.loads(told.stdout)
    assert grown < 0.2 * size
    assert whole > size, "all of them were read"
