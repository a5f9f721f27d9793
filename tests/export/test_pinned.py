"""Pinned modules in the graphs: their types in FP16 graphs, and their names in FP32 ones."""

import onnx
import pytest
from onnx import TensorProto

from edgeformer.export.graphs import assemble, skeleton, trace
from edgeformer.export.operators import check_operators
from edgeformer.export.pinned import PREFIX
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.pins import STREAM, float32_modules
from tests.nn.choices import CHOICES, choice_decoder

WIDE = (TensorProto.FLOAT, TensorProto.INT32)
PINS = {
    "gqa": ("blocks.1.ff.down",),
    "like-gpt2": ("blocks.0.ff", "blocks.1.attention.out", "final_norm"),
    "like-gemma": (STREAM, "blocks.2.attention", "blocks.0.ff_post_norm"),
    "like-phi": (STREAM, "head", "blocks.1.attention.qkv"),
    "tied-head-bias": ("embedding",),
    "norm-post": (STREAM, "blocks.0.ff.up"),
    "learned": (STREAM, "position_embedding"),
    "qk-norm-head": ("blocks.0.attention", "blocks.1.attention.q_norm"),
    "norm-on-embedding": (STREAM, "embedding_norm", "embedding"),
    "multipliers": (STREAM, "blocks.0.ff.down"),
}


def typed(name, kind, pins, tmp_path):
    """The half-precision graph, and the element type of every value in it."""
    traced = trace(
        skeleton(CHOICES[name], "fp16", pins), kind, choice_decoder(name).state_dict(), pins=pins
    )
    with WeightsFile(tmp_path) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    known = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*known.value_info, *known.output)}
    return model, types


EACH = pytest.mark.parametrize("name", PINS)


@EACH
@pytest.mark.parametrize("kind", ("prefill", "decode"))
def test_the_nodes_of_pinned_modules_are_fp32_and_no_others(name, kind, tmp_path):
    model, types = typed(name, kind, PINS[name], tmp_path)
    assert check_operators(model) == []
    for node in model.graph.node:
        if node.op_type != "Shape":
            assert node.name.startswith(PREFIX) == (types[node.output[0]] in WIDE), node.name


@EACH
def test_an_fp32_graph_names_the_same_nodes(name, tmp_path):
    """An FP16 engine that is built from it then computes as the typed graph does."""
    model, _ = typed(name, "prefill", PINS[name], tmp_path)
    plain = trace(skeleton(CHOICES[name]), "prefill", pins=PINS[name])

    def operations(nodes):
        """Names and operators, without casts: they shift the numbers of what follows them."""
        kept = [n for n in nodes if n.op_type != "Cast"]
        return [(n.name.rpartition("/")[0], n.op_type, n.name.startswith(PREFIX)) for n in kept]

    assert operations(plain.nodes) == operations(model.graph.node)


@EACH
def test_weights_of_pinned_modules_are_stored_unrounded(name, tmp_path):
    decoder = choice_decoder(name)
    model, _ = typed(name, "prefill", PINS[name], tmp_path)
    wide = float32_modules(decoder, PINS[name])
    stored = {t.name.removesuffix(".transpose"): t for t in model.graph.initializer}
    found = set()
    for path, _ in decoder.named_parameters():
        if path in stored:  # others are folded
            pinned = path.rpartition(".")[0] in wide
            wanted = TensorProto.FLOAT if pinned else TensorProto.FLOAT16
            assert stored[path].data_type == wanted, path
            found.add(pinned)
    assert found == ({True, False} if wide else {False})
