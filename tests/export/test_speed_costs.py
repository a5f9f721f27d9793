"""The device's count of bytes, operations and nodes, against formulas and ONNX Runtime's graphs."""

import onnx
import onnxruntime
import pytest

from edgeformer.bundle import Bundle
from edgeformer.contract import STEP
from edgeformer.engines.graphfile import read_graph
from edgeformer.nn.costs import costs
from edgeformer.speed import graphs
from edgeformer.speed.costs import Matrix, Steps
from edgeformer.speed.nodes import running_nodes
from tests import bundles as bundle_files
from tests.nn.choices import CHOICES

# Its norm over many short rows is fused by no ONNX Runtime, and by our count.
UNFUSED = {"qk-norm-heads"}


@pytest.mark.parametrize("name", CHOICES)
def test_bytes_and_operations_are_those_of_the_formulas(name, bundles):
    config = CHOICES[name]
    bundle = Bundle.open(str(bundles[name].path))
    capacity = bundle.manifest.capacity
    wanted = costs(config)
    step = Steps(bundle, "fp32", False).decode(capacity - 1)
    cut = config.max_positions - capacity  # the formulas are for all positions
    row = 4 * config.n_layers * config.n_heads * config.head_dim
    # of the one new row the values are scaled by a Mul, which is no product
    assert step.flops == wanted.flops_per_token - cut * row - row // 2
    width = 4 * 2 * config.n_layers * config.kv_width
    assert step.cache_bytes == wanted.cache_bytes["fp32"] - cut * width
    # each stored number but the tables, of which one row is read; small constants are more
    tables = 0 if config.tie_embeddings else config.vocab_size * config.d_model
    if config.position == "learned":
        tables += (config.max_positions + config.position_offset) * config.d_model
    read = wanted.weight_bytes["fp32"] - 4 * tables
    assert read <= step.weight_bytes <= read + 4 * 2 * config.d_model + 4500


@pytest.mark.parametrize("name", [name for name in CHOICES if name not in UNFUSED])
def test_nodes_are_those_that_onnxruntime_is_left_with(name, bundles, tmp_path):
    compare(str(bundles[name].path), "prefill", tmp_path)


@pytest.mark.parametrize("path", [bundle_files.BLOCKS, bundle_files.INT8, bundle_files.FUSED])
def test_quantized_nodes_are_those_that_onnxruntime_is_left_with(path, tmp_path):
    for kind in Bundle.open(path).manifest.graphs:
        compare(path, kind, tmp_path)


def compare(path, kind, tmp_path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    file = f"{path}/{kind}.onnx"
    onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    theirs = len(onnx.load(tmp_path / "optimized.onnx", load_external_data=False).graph.node)
    graph = read_graph(file, kind)
    ours = len(running_nodes(graph))
    assert abs(ours - theirs) <= 0.08 * theirs
    if kind != STEP:
        assert ours < 0.9 * len(graph.nodes), "something is fused in each of our graphs"


@pytest.mark.parametrize(
    "matrix",
    [
        Matrix(64, 48, "MatMul", 32),
        Matrix(64, 96, "MatMul", 32, 32),
        Matrix(64, 48, "MatMulInteger", 8),
        Matrix(64, 48, "MatMulNBits", 8, 32),
        Matrix(64, 48, "MatMulNBits", 4, 32),
    ],
)
def test_graphs_written_without_onnx_are_those_that_onnx_reads(matrix):
    graph = graphs.products([matrix, matrix], 3)
    model = onnx.load_from_string(graph.model)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node].count(matrix.operator) == 2
    session = onnxruntime.InferenceSession(graph.model, providers=["CPUExecutionProvider"])
    for found in session.run(None, graph.inputs):
        assert found.size == 3 * matrix.outer
        assert abs(found).max() > 0


@pytest.mark.parametrize("nodes", [False, True])
def test_layers_written_without_onnx_are_checked_by_onnx(nodes):
    graph = graphs.layers(3, 2, 3, 8, nodes)
    model = onnx.load_from_string(graph.model)
    onnx.checker.check_model(model, full_check=True)
    assert len(model.graph.node) == graph.nodes
