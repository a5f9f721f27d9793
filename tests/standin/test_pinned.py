"""What the FP16 audit pinned is FP32 in an FP16 build: products, sums, and all between them."""

import subprocess
import sys

import pytest

from edgeformer.engines.graphfile import read_graph
from tests.standin import libraries
from tests.standin.build_verb import Calls, build, only_set
from tests.standin.conftest import RELEASE

pytestmark = [
    pytest.mark.skipif(libraries.PYTHON != "host", reason="the exporter is of the host half"),
    pytest.mark.skipif(RELEASE.startswith("11."), reason="TensorRT 11 takes no FP16 flag"),
]
ADDED = ("(Unnamed Layer", "ONNXTRT_")  # by the parser
FP32, FREE = (0, 0), (None, None)  # precision and output type of a layer

PROGRAM = """
import dataclasses, sys, torch
from edgeformer.export import export_decoder
from tests.nn.choices import PLAIN, PROMPT, random_decoder
decoder = random_decoder(dataclasses.replace(PLAIN, ff_bias=True, attention_soft_cap=3.0), 1)
with torch.no_grad():
    decoder.blocks[1].ff.up.weight.mul_(3e2)
    decoder.final_norm.weight.mul_(1e5)
    decoder.blocks[0].attention.qkv.weight.mul_(3e2)
made = export_decoder(
    decoder, sys.argv[1], name="b", capacity=40, chunk=16, golden_prompt=PROMPT
)
print(" ".join(pin.module for pin in made.fp16.pins))
"""


@pytest.fixture(scope="module")
def pinned(tmp_path_factory):
    """(bundle, set) of an FP16 build of FP32 graphs with pins."""
    path = str(tmp_path_factory.mktemp("pinned") / "bundle")
    command = [sys.executable, "-c", PROGRAM, path]
    done = subprocess.run(
        command, cwd=libraries.ROOT, check=True, timeout=300, stdout=subprocess.PIPE
    )
    assert {b"blocks.1.ff.down", b"residual", b"head", b"blocks.0.attention"} < set(
        done.stdout.split()
    )
    status, err = build(path, "--precision", "fp16")
    assert status == 0, err
    return only_set(path)


@pytest.fixture(params=["decode", "prefill"])
def built(request, pinned):
    """({layer: types}, the graph) of one plan."""
    bundle, engines = pinned
    file = bundle.manifest.graphs[request.param].file
    return Calls(bundle, engines, request.param).layers, read_graph(bundle.file(file), file)


def test_products_sums_and_norms_that_are_pinned_are_fp32(built):
    layers, _ = built
    for name in (
        "fp32/blocks.0/attention/qkv/MatMul",
        "fp32/blocks.0/attention/out/MatMul",
        "fp32/blocks.0/attention/MatMul",  # scores
        "fp32/blocks.1/ff/down/Gemm",
        "fp32/blocks.1/ff/Sigmoid",
        "fp32/blocks.1/ff/Mul_1",  # gate times up: what overflowed
        "fp32/blocks.0/Add",
        "fp32/blocks.0/Add_1",
        "fp32/blocks.1/Add_1",
        "fp32/final_norm/Mul",
        "fp32/Gemm",
    ):
        assert layers[name] == FP32, name


def test_other_products_stay_free(built):
    layers, _ = built
    for name in ("blocks.0/ff/down/Gemm", "blocks.1/ff/up/Gemm", "blocks.1/attention/out/MatMul"):
        assert layers[name] == FREE, name


def test_weights_of_pinned_products_are_not_rounded(built):
    layers, graph = built
    product = "blocks.0.attention.qkv.weight.transpose"
    for name in (product, "blocks.1.ff.down.weight", "blocks.1.ff.down.bias", "head.weight"):
        assert name in graph.initializers
        assert layers[name] == (None, 0), name
    assert layers["blocks.1.ff.up.weight"] == layers["blocks.0.ff.down.bias"] == FREE


def test_new_rows_of_pinned_attention_are_fp16_as_the_cache_is(built):
    layers, graph = built
    for row in ("new.0.key", "new.0.value"):
        (node,) = [node for node in graph.nodes if row in node.outputs]
        assert node.name.startswith("fp32/blocks.0/attention/")
        assert layers[node.name][1] is None, row


def test_nothing_between_two_pinned_layers_is_cut_to_fp16(built):
    """A layer of the parser's own stands before the second operand of a sum."""
    layers, graph = built
    order = list(layers)
    pinned = {node.name for node in graph.nodes if node.name.startswith("fp32/")}
    made_by = {output: node.name for node in graph.nodes for output in node.outputs}
    found = 0
    for node in graph.nodes:
        if node.name not in pinned or node.operator != "Add" or len(node.inputs) < 2:
            continue
        before = order[order.index(node.name) - 1]
        assert before.startswith(ADDED)
        if made_by.get(node.inputs[1]) in pinned and layers[node.name] == FP32:
            assert layers[before] == FP32, node.name
            found += 1
    assert found >= 2
