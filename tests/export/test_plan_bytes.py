"""The device's count of bytes and sizes, against onnx's own."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgeformer.bundle import Bundle
from edgeformer.engines.graphfile import read_graph
from edgeformer.engines.needs import Case, Sizes
from edgeformer.engines.shapes import Value, infer
from tests.nn.choices import CHOICES

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
    bundle = Bundle.open(str(bundles[name].path))
    graph = bundle.manifest.graphs[kind]
    model = onnx.load(bundles[name].path / graph.file, load_external_data=False)
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


def test_a_tied_table_is_held_twice_and_host_embedding_frees_one(bundles):
    bundle = Bundle.open(str(bundles["tied"].path))
    sizes = Sizes(bundle)
    table = bundle.manifest.model["vocab_size"] * bundle.manifest.model["d_model"] * 4
    assert (sizes.table(), sizes.tied()) == (table, True)
    case = Case("shared", "fp32", 80, 80)
    host = sizes.needs(case._replace(embedding="host"))
    assert sizes.needs(case).weights - host.weights == table
