"""What stands in the two graphs and in weights.bin, and how a fault is named."""

import dataclasses
import hashlib
from collections import Counter

import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

from edgeformer.bundle import read_manifest
from edgeformer.contract import portable_graph
from edgeformer.errors import CheckFailed
from edgeformer.export import export_decoder
from edgeformer.export.graphs import _export, trace
from edgeformer.export.pinned import PREFIX
from edgeformer.export.weights import ALIGNMENT
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.step import CachedStep
from tests.export.graph_rows import graph_of
from tests.nn.choices import CHOICES, PLAIN, choice_decoder, random_decoder

BOTH = pytest.mark.parametrize("kind", ("prefill", "decode"))
SOME = pytest.mark.parametrize("name", ("gqa", "alibi-gqa", "like-gemma", "like-gpt2", "tied"))


def tensor_specs(values):
    types = {onnx.TensorProto.INT32: "int32", onnx.TensorProto.FLOAT: "float32"}
    for value in values:
        tensor = value.type.tensor_type
        shape = tuple(d.dim_param or d.dim_value for d in tensor.shape.dim)
        yield value.name, types[tensor.elem_type], shape


@SOME
@BOTH
def test_inputs_and_outputs_are_the_contract_in_its_order(name, kind, bundles):
    bundle = bundles[name].path
    graph = graph_of(bundle, kind).graph
    wanted = portable_graph(kind, f"{kind}.onnx", CHOICES[name].to_json())
    assert tuple(tensor_specs(graph.input)) == wanted.inputs
    assert tuple(tensor_specs(graph.output)) == wanted.outputs
    assert read_manifest(str(bundle / "manifest.json")).graphs[kind] == wanted


@SOME
@BOTH
def test_versions_are_those_that_tensorrt_8_2_reads(name, kind, bundles):
    model = graph_of(bundles[name].path, kind)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 13)]
    assert model.ir_version <= 8
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)


@SOME
@BOTH
def test_nothing_is_computed_twice_or_for_nothing(name, kind, bundles):
    graph = graph_of(bundles[name].path, kind).graph
    known = {t.name for t in graph.initializer}
    read = {n for node in graph.node for n in node.input} | {v.name for v in graph.output}
    seen = Counter()
    for node in graph.node:
        assert node.op_type not in ("Constant", "Identity", "Dropout")
        assert not known.issuperset(node.input), f"{node.name} depends on weights alone"
        assert read.intersection(node.output), f"nobody reads {node.name}"
        attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
        seen[(node.op_type, *node.input, *attributes)] += 1
    assert set(seen.values()) == {1}
    assert known <= read


def external(tensor):
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return entries["location"], int(entries["offset"]), int(entries["length"])


@SOME
def test_weights_are_stored_once_aligned_and_beside_the_graphs(name, bundles):
    bundle = bundles[name].path
    data = (bundle / "weights.bin").read_bytes()
    places = []
    for kind in ("prefill", "decode"):
        for tensor in graph_of(bundle, kind).graph.initializer:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                location, offset, length = external(tensor)
                assert location == "weights.bin"
                assert offset % ALIGNMENT == 0
                assert length >= 1024
                places.append((offset, length))
            else:
                assert numpy_helper.to_array(tensor).nbytes < 1024
    assert len(places) > len(set(places)), "the graphs share their weights"
    contents = [hashlib.sha256(data[o : o + n]).digest() for o, n in set(places)]
    assert len(set(contents)) == len(contents)
    assert len(data) == max(o + n for o, n in places)
    assert len(data) < sum(n + ALIGNMENT for _, n in set(places))


@SOME
def test_stored_weights_are_those_of_the_decoder(name, bundles):
    parameters = dict(choice_decoder(name).named_parameters())
    model = onnx.load(str(bundles[name].path / "prefill.onnx"))
    found = set()
    assert [] in [list(tensor.dims) for tensor in model.graph.initializer], "scalars stay scalars"
    for tensor in model.graph.initializer:
        source = tensor.name.removesuffix(".transpose").removesuffix(".add")
        if source not in parameters:
            assert tensor.name.startswith("constant.")
            continue
        wanted = parameters[source].detach()
        wanted = wanted.t() if tensor.name.endswith(".transpose") else wanted
        wanted = wanted + 1 if tensor.name.endswith(".add") else wanted
        torch.testing.assert_close(torch.from_numpy(numpy_helper.to_array(tensor).copy()), wanted)
        found.add(source)
    assert found == set(parameters)


@BOTH
def test_a_tied_table_is_stored_once_and_the_head_reads_it_as_it_lies(kind, bundles):
    graph = graph_of(bundles["tied"].path, kind).graph
    readers = [node for node in graph.node if "embedding.weight" in node.input]
    assert sorted(node.op_type for node in readers) == ["Gather", "Gemm"]
    (head,) = (node for node in readers if node.op_type == "Gemm")
    assert {a.name: a.i for a in head.attribute}["transB"] == 1
    untied = (bundles["gqa"].path / "weights.bin").stat().st_size
    assert untied - (bundles["tied"].path / "weights.bin").stat().st_size >= 96 * 32 * 4


def test_two_exports_of_a_decoder_are_equal_to_the_byte(bundles, tmp_path):
    first = bundles["gqa"].path
    options = {"name": "gqa", "capacity": 72, "chunk": 5, "target": "cpu"}
    options["dialect"] = "portable"
    prompt = read_manifest(str(first / "manifest.json")).golden.prompt_ids
    export_decoder(choice_decoder("gqa"), tmp_path / "b", golden_prompt=prompt, **options)
    for path in sorted(first.iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", ("gqa", "alibi-gqa", "like-gemma", "layernorm", "sinusoidal"))
@BOTH
def test_pinned_nodes_are_those_that_a_half_precision_model_keeps_in_float32(name, kind):
    """PyTorch says which: the same module in float16, traced, and the types read off."""
    config = dataclasses.replace(CHOICES[name], vocab_size=128)
    traced = trace(random_decoder(config), kind)
    step = CachedStep(random_decoder(config).half(), one=kind == "decode").eval()
    half = onnx.shape_inference.infer_shapes(_export(step, traced.contract)).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*half.value_info, *half.output)}
    kept = (onnx.TensorProto.FLOAT, onnx.TensorProto.INT32)
    wide = {
        n.name.lstrip("/"): types[n.output[0]] in kept for n in half.node if n.op_type != "Cast"
    }
    compared = [node for node in traced.nodes if node.op_type not in ("Cast", "Shape")]
    for node in compared:
        assert node.name.startswith(PREFIX) == wide[node.name.removeprefix(PREFIX)], node.name
    assert len(compared) > 80


class Bad(nn.Module):
    """A feed-forward with one operator too many."""

    def __init__(self, inner, function) -> None:
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x):
        return self.inner(x) + self.function(x)


def spoiled(function) -> Decoder:
    decoder = random_decoder(PLAIN)
    decoder.blocks[1].ff = Bad(decoder.blocks[1].ff, function)
    return decoder


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (torch.special.bessel_j0, "special_bessel_j0"),  # ONNX has no such operator at all
        (lambda x: torch.fmod(x, 2.0), "Mod"),
        (lambda x: torch.where(x > 0, x, -x), "Greater"),  # BOOL, although 8.2 parses Where
        (lambda x: x.long().float(), "Cast"),  # INT64
        (lambda x: x.double().float(), "Cast"),
    ],
)
def test_an_operator_outside_the_list_names_its_module(function, operator, tmp_path):
    with pytest.raises(CheckFailed) as caught:
        export_decoder(spoiled(function), tmp_path / "b", name="b")
    message = str(caught.value)
    assert operator in message
    assert "made by blocks.1.ff (Bad)" in message
    assert list(tmp_path.iterdir()) == []


class Headless(Decoder):
    def logits(self, x):
        return x.new_zeros(1, self.config.vocab_size)


def test_an_input_that_the_exporter_drops_is_an_error(tmp_path):
    with pytest.raises(CheckFailed, match=r"prefill\.onnx was traced with .* rows"):
        export_decoder(Headless(PLAIN), tmp_path / "b", name="b")


def test_a_size_that_is_computed_with_is_an_error(tmp_path):
    with pytest.raises(CheckFailed, match="computes with a tensor's size"):
        export_decoder(spoiled(lambda x: x * x.shape[0]), tmp_path / "b", name="b")
