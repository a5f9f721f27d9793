"""The device's count of bytes and sizes, against onnx's own."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeformer.bundle import Bundle
from edgeformer.engines.graphfile import read_graph
from edgeformer.engines.needs import Case, Sizes
from edgeformer.engines.shapes import Value, infer
from edgeformer.export import export_decoder
from tests import bundles as bundle_files
from tests.nn.choices import CHOICES, choice_decoder

FREE = {"T": 5, "P": 11, "R": 2}


def tensors(path, kind):
    return onnx.load(path / f"{kind}.onnx", load_external_data=False).graph.initializer


def size(tensor):
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return int(np.prod(tensor.dims, dtype=np.int64)) * kind.itemsize


def place(tensor):
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return entries.get("offset", tensor.name)


@pytest.mark.parametrize("name", CHOICES)
def test_weights_are_counted_to_the_byte(name, bundles):
    sizes = Sizes(Bundle.open(str(bundles[name].path)))
    path = bundles[name].path
    both = [t for kind in ("prefill", "decode") for t in tensors(path, kind)]
    assert sizes.stored == sum({place(t): size(t) for t in both}.values())
    for kind in ("prefill", "decode"):
        ours = sizes.weights(kind, "fp32")
        nodes = onnx.load(path / f"{kind}.onnx", load_external_data=False).graph.node
        looked_up = {n.input[0] for n in nodes if n.op_type == "Gather"}
        other = {x for n in nodes for i, x in enumerate(n.input) if i or n.op_type != "Gather"}
        twice = looked_up & other
        real = sum(
            (2 if t.name in twice else 1) * size(t) // (2 if t.data_type == 7 else 1)
            for t in tensors(path, kind)
        )
        assert ours == real
    assert sizes.tied() == CHOICES[name].tie_embeddings


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("kind", ["prefill", "decode"])
def test_sizes_are_those_that_onnx_infers(name, kind, bundles):
    compare_sizes(Bundle.open(str(bundles[name].path)), kind)


@pytest.mark.parametrize("kind", ["prefill", "decode"])
def test_sizes_of_an_int8_graph_are_those_that_onnx_infers(kind):
    model = compare_sizes(Bundle.open(bundle_files.INT8), kind)
    wanted = {"DynamicQuantizeLinear", "MatMulInteger", "ReduceMax"}
    assert wanted <= {node.op_type for node in model.graph.node}


def compare_sizes(bundle, kind):
    graph = bundle.manifest.graphs[kind]
    model = onnx.load(bundle.file(graph.file), load_external_data=False)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = FREE[dim.dim_param]
    known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.value_info
    given = {
        spec.name: Value(
            tuple(FREE.get(d, d) for d in spec.shape),
            TensorProto.INT32 if spec.dtype == "int32" else TensorProto.FLOAT,
        )
        for spec in graph.inputs
    }
    ours = infer(read_graph(bundle.file(graph.file), graph.file), given, graph.file)
    compared = 0
    for value in known:
        dims = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            assert ours[value.name].shape == tuple(dim.dim_value for dim in dims), value.name
            assert ours[value.name].element == value.type.tensor_type.elem_type
            compared += 1
    assert compared > 0.7 * len(model.graph.node), "onnx knows most sizes"
    return model


def test_a_tied_table_is_held_twice_and_host_embedding_frees_one(bundles):
    bundle = Bundle.open(str(bundles["tied"].path))
    sizes = Sizes(bundle)
    table = bundle.manifest.model["vocab_size"] * bundle.manifest.model["d_model"] * 4
    assert (sizes.table(), sizes.tied()) == (table, True)
    case = Case("shared", "fp32", 80, 80)
    host = sizes.needs(case._replace(embedding="host"))
    assert sizes.needs(case).weights - host.weights == table


def quantized(source, folder):
    """A copy of a bundle's graphs in which INT8 weights stand behind DequantizeLinear."""
    path = bundle_files.copied(str(source), folder)
    total = {}
    for kind in ("prefill", "decode"):
        model = onnx.load(f"{path}/{kind}.onnx")
        arrays = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        kept = {t.name: t for t in model.graph.initializer}
        nodes, count = [], 0
        for node in model.graph.node:
            weight = next((n for n in node.input if n in arrays and arrays[n].ndim == 2), None)
            if node.op_type in ("MatMul", "Gemm") and weight in kept:
                columns = arrays[weight].shape[1]
                scale = np.abs(arrays[weight]).max(0) / 127
                values = np.round(arrays[weight] / scale).astype(np.int8)
                parts = (values, scale, np.zeros(columns, np.int8))
                names = [weight + end for end in (".int8", ".scale", ".zero")]
                for name, array in zip(names, parts, strict=True):
                    kept[name] = numpy_helper.from_array(array, name)
                del kept[weight]
                nodes.append(
                    helper.make_node("DequantizeLinear", names, [weight], axis=1, name=weight)
                )
                count += values.size + 4 * columns
            nodes.append(node)
        for t in kept.values():
            if not t.name.endswith((".int8", ".scale", ".zero")):
                count += size(t) // (2 if t.data_type == TensorProto.INT64 else 1)
        del model.graph.node[:], model.graph.initializer[:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(kept.values())
        onnx.checker.check_model(model)
        bundle_files.replace_file(path, f"{kind}.onnx", model.SerializeToString())
        total[kind] = count
    return path, total


def test_int8_weights_are_counted_to_the_byte_with_their_scales(bundles, tmp_path):
    path, total = quantized(bundles["gqa"].path, tmp_path)
    sizes, plain = Sizes(Bundle.open(path)), Sizes(Bundle.open(str(bundles["gqa"].path)))
    for kind in ("prefill", "decode"):
        assert sizes.weights(kind, "fp32") == total[kind]
        assert sizes.weights(kind, "int8") < 0.75 * plain.weights(kind, "fp16")
    case = Case("shared", "int8", 72, 5)
    assert sizes.needs(case).cache == plain.needs(case._replace(precision="fp16")).cache


@pytest.mark.parametrize("name", ["tied", "like-gemma"])
def test_typed_weights_are_counted_to_the_byte(name, tmp_path):
    options = {"name": "b", "capacity": 20, "precision": "fp16", "embedding": "host"}
    made = export_decoder(choice_decoder(name), tmp_path / "b", **options)
    sizes = Sizes(Bundle.open(str(made.path)))
    for kind in ("prefill", "decode"):
        found = tensors(made.path, kind)
        real = sum(size(t) // (2 if t.data_type == TensorProto.INT64 else 1) for t in found)
        assert sizes.weights(kind, "fp16") == real
    table = sizes.manifest.embedding
    assert table.bytes == CHOICES[name].vocab_size * 32 * 2
    # the table of an untied head is in weights.bin, and in no graph
    inside = {place(t) for t in tensors(made.path, "prefill")}
    assert (str(table.offset) in inside) == CHOICES[name].tie_embeddings
