"""Graphs with QuantizeLinear and DequantizeLinear compute what PyTorch computes in INT8."""

import dataclasses
import functools

import numpy as np
import onnx
import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.export.graphs import assemble, skeleton, trace
from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import read_model
from edgeformer.export.qdq import with_int8
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.quantize.int8 import Int8, calibrated, in_int8, untied
from edgeformer.nn.quantize.int8_sensitivity import quantize_int8
from edgeformer.targets import PARSERS, TARGETS, parser_for
from tests.export.test_nbits import logits_of
from tests.nn.choices import CHOICES, choice_decoder
from tests.nn.quantize.test_int8 import IDS

# One of each kind: what folds where, biases, a head of its own and a tied one.
FEW = ("tied-head-bias", "norm-post", "like-gemma", "like-phi")
EVERY = [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in CHOICES]
NO_LIMIT = 1e9


def written(decoder, found, folder, kinds=("prefill", "decode")):
    """Graphs over one file of weights."""
    models = {}
    with WeightsFile(folder) as weights:
        for kind in kinds:
            plain = trace(skeleton(decoder.config), kind, decoder.state_dict())
            traced = with_int8(plain, found)
            models[kind] = assemble(traced, list(weights.initializers(traced.weights)))
            (folder / f"{kind}.onnx").write_bytes(models[kind].SerializeToString())
    return models


def in_torch(decoder, found, ids):
    """Logits of the same products in PyTorch, [T, vocab]."""
    own = untied(decoder)
    with torch.no_grad():
        for name, weight in found.folded.items():
            own.get_parameter(name).copy_(weight)
        with in_int8(own, found.products):
            return own(torch.tensor([ids]))[0].numpy()


@functools.cache
def quantized(name):
    decoder = choice_decoder(name)
    return decoder, quantize_int8(decoder, IDS, budget=NO_LIMIT)


def close(found, wanted, apart):
    """Equal but for rounding: now and then it turns the rounding of an input to INT8, which then
    shows in the rows behind it, far less than INT8 itself (`apart`)."""
    scale = max(1.0, abs(wanted).max())
    errors = abs(found - wanted).max(-1)
    return (errors < 1e-4 * scale).mean() >= 0.5 and errors.max() < 0.5 * apart


@pytest.mark.parametrize("name", EVERY)
def test_a_quantized_graph_computes_the_quantized_decoder_and_passes_the_lint(name, tmp_path):
    decoder, found = quantized(name)
    assert len(found.products) == 4 * decoder.config.n_layers + 1
    written(decoder, found, tmp_path)
    ids = IDS[0, :20].tolist()
    wanted = in_torch(decoder, found, ids)
    with torch.no_grad():
        plain = decoder(torch.tensor([ids]))[0].numpy()
    apart = abs(plain - wanted).max()
    assert apart > 1e-3 * max(1.0, abs(wanted).max()), "nothing was quantized"
    assert close(logits_of(tmp_path / "prefill.onnx", decoder.config, ids), wanted, apart)
    for kind in ("prefill", "decode"):
        path = tmp_path / f"{kind}.onnx"
        onnx.checker.check_model(path)
        typed = read_model(path)
        for parser in PARSERS:
            errors = [f for f in lint_model(typed, parser) if f.severity == ERROR]
            assert errors == [], parser.title


def test_products_that_stay_out_are_smoothed_in_floats(tmp_path):
    decoder, _ = quantized("like-gemma")
    own, _, _ = calibrated(decoder, IDS)
    folded = {
        name: weight.detach()
        for name, weight in own.named_parameters()
        if not name.startswith(("head", "final_norm"))
        and not weight.equal(decoder.get_parameter(name))
    }
    assert len(folded) == 3 * (4 + 2)  # of a layer: products, and the norms before them
    written(decoder, Int8({}, folded, {}), tmp_path, ("prefill",))
    ids = IDS[0, :20].tolist()
    got = logits_of(tmp_path / "prefill.onnx", decoder.config, ids)
    with torch.no_grad():
        wanted = decoder(torch.tensor([ids]))[0].numpy()
    assert abs(got - wanted).max() < 1e-4 * max(1.0, abs(wanted).max())


def test_weights_are_int8_and_both_graphs_share_them(tmp_path):
    models = written(*quantized("gqa"), tmp_path)
    places = {}
    for kind, model in models.items():
        tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        up = tensors["blocks.0.ff.up.int8"]
        assert (up.data_type, list(up.dims)) == (onnx.TensorProto.INT8, [32, 96])
        floats = [
            name
            for name, tensor in tensors.items()
            if tensor.data_type == onnx.TensorProto.FLOAT
            and len(tensor.dims) == 2
            and name[:8] != "constant"
        ]
        assert set(floats) <= {"embedding.weight"}  # no second copy of a matrix
        places[kind] = {entry.key: entry.value for entry in up.external_data}
        assert model.opset_import[0].version == 13
    assert places["prefill"] == places["decode"]


def test_scales_and_zero_points_are_what_tensorrt_wants(tmp_path):
    models = written(*quantized("like-gpt2"), tmp_path)
    for model in models.values():
        known = {t.name: t for t in model.graph.initializer}
        weights = activations = 0
        for node in model.graph.node:
            if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
                continue
            scale, zero = (onnx.numpy_helper.to_array(known[name]) for name in node.input[1:])
            assert (zero.dtype, scale.dtype) == (np.int8, np.float32)
            assert not zero.any()
            assert scale.shape == zero.shape
            assert (scale > 0).all()
            assert (scale == scale.astype(np.float16)).all()
            weights += scale.ndim
            activations += not scale.ndim
            assert scale.ndim == 0 or node.op_type == "DequantizeLinear"
        assert weights == 9
        assert activations == 2 * 9


def test_products_behind_one_norm_share_their_rounded_inputs(tmp_path):
    models = written(*quantized("parallel-one-norm"), tmp_path)
    nodes = models["prefill"].graph.node
    assert sum(node.op_type == "QuantizeLinear" for node in nodes) == 2 * 3 + 1


def test_the_lint_refuses_the_nano(tmp_path):
    written(*quantized("gqa"), tmp_path)
    typed = read_model(tmp_path / "prefill.onnx")
    found = lint_model(typed, parser_for("8.2"), target=TARGETS["jetson-nano"])
    assert [f.rule for f in found if f.severity == ERROR] == ["int8-hardware"]
    for version in ("8.5", "8.6", "10"):
        found = lint_model(typed, parser_for(version), target=TARGETS["jetson-orin-nano"])
        assert [f for f in found if f.severity == ERROR] == []


def test_what_a_graph_lacks_is_refused_by_name():
    decoder, found = quantized("gqa")
    traced = trace(skeleton(decoder.config), "decode", decoder.state_dict())
    with pytest.raises(EdgeformerError, match=r"has no product nobody"):
        with_int8(traced, dataclasses.replace(found, products={"nobody": found.products["head"]}))
    with pytest.raises(EdgeformerError, match=r"has no x\.weight that could be smoothed"):
        with_int8(traced, dataclasses.replace(found, folded={"x.weight": torch.ones(3)}))
