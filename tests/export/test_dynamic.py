"""Products of int8 with plain operators: what they compute, and what they do with bad numbers."""

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from edgeformer.contract import Graph, TensorSpec
from edgeformer.errors import EdgeformerError
from edgeformer.export.clean import Weight
from edgeformer.export.dynamic import int8_steps, with_int8
from edgeformer.export.graphs import Traced, assemble, trace
from edgeformer.export.weights import WeightsFile
from edgeformer.nn.quantize.int8_forms import Form
from tests.export.test_nbits import logits_of
from tests.nn.choices import choice_decoder

PLAIN = {"", "ai.onnx"}


def written(traced, folder):
    with WeightsFile(folder) as weights:
        model = assemble(traced, list(weights.initializers(traced.weights)))
    path = folder / traced.contract.file
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(path)
    return path


def matrices(decoder):
    """The names of all matrices of a decoder's products, and of its table of tokens."""
    return [
        name
        for name, weight in decoder.named_parameters()
        if weight.dim() == 2 and not name.startswith("position")
    ]


def plain(names):
    return dict.fromkeys(names, Form.PLAIN)


def product(weight, x, folder, form=Form.PLAIN):
    """x times the matrix, transposed, through an int8 product."""
    outputs, inputs = weight.shape
    contract = Graph(
        "prefill.onnx",
        (TensorSpec("x", "float32", ("T", inputs)),),
        (TensorSpec("y", "float32", ("T", outputs)),),
    )
    name = "w.transpose"
    node = onnx.helper.make_node("MatMul", ["x", name], ["y"], name="w/MatMul")
    traced = Traced(contract, [node], {name: Weight(name, lambda: weight.T)})
    path = written(with_int8(traced, {"w": form}), folder)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("choice", ["gqa", "all-biases", "parallel-one-norm"])
def test_products_are_those_of_onnxruntimes_own_quantizer(choice, tmp_path):
    decoder = choice_decoder(choice)
    traced = trace(decoder, "prefill")
    path = written(traced, tmp_path)
    quantize_dynamic(
        path,
        tmp_path / "theirs.onnx",
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=QuantType.QInt8,
    )
    names = [name for name in matrices(decoder) if not name.startswith("embedding")]
    made = with_int8(traced, plain(names))
    theirs = onnx.load(tmp_path / "theirs.onnx").graph.initializer
    theirs = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in theirs}
    for name in names:
        (like,) = (found for key, found in theirs.items() if re.match(name + ".*_quantized", key))
        assert np.array_equal(made.weights[name + ".int8"].array(), like), name
    (tmp_path / "ours").mkdir()
    ours = written(made, tmp_path / "ours")
    ids = [5 * i % decoder.config.vocab_size for i in range(20)]
    wanted, found, before = (
        logits_of(p, decoder.config, ids) for p in (tmp_path / "theirs.onnx", ours, path)
    )
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert np.abs(found - before).max() > 1e-3, "nothing was quantized"


FORMS = list(Form)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_product_is_off_by_its_rounding_and_no_more(form, tmp_path):
    steps, scales = int8_steps("w", random(40, 96))
    weight, x = steps * scales[:, None], random(7, 96, seed=1)  # the weights are held exactly
    found = product(weight, x, tmp_path, form)
    expected = x.astype(np.float64) @ weight.T
    largest = np.abs(x).max(axis=1, keepdims=True)
    step = {
        Form.PLAIN: np.full((7, 1), np.ptp(x) / 255),
        Form.ROWS: largest * np.ptp(x / largest) / 255,
        Form.FINE: largest / 127 / 254,
    }[form]
    # half a step of 96 inputs, as the errors of random numbers add up: 4.5 standard deviations
    allowed = 4.5 * step * np.sqrt(1 / 12) * np.linalg.norm(weight, axis=1)  # [7, 40]
    wrong = np.abs(found - expected)
    assert (wrong < allowed).all()
    assert wrong.max() > 0.2 * allowed.min(), "it is exact: the bound proves nothing"


@pytest.mark.parametrize("form", [Form.ROWS, Form.FINE], ids=lambda form: form.name)
def test_one_huge_token_costs_the_others_nothing_but_in_the_plain_form(form, tmp_path):
    weight, x = random(40, 96), random(7, 96, seed=1)
    alone = product(weight, x[:6], tmp_path, form)
    x[6] *= 1e4
    expected = x.astype(np.float64) @ weight.T
    good = np.abs(alone - expected[:6]).max()
    assert np.abs(product(weight, x, tmp_path, form) - expected)[:6].max() < 1.5 * good
    assert np.abs(product(weight, x, tmp_path) - expected)[:6].max() > 20 * good


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_rows_and_channels_of_zeros_give_zeros(form, tmp_path):
    weight, x = random(8, 32), random(4, 32, seed=1)
    weight[3], x[2] = 0.0, 0.0
    found = product(weight, x, tmp_path, form)
    assert np.isfinite(found).all()
    assert not found[:, 3].any() and not found[2].any()
    assert not product(weight, np.zeros_like(x), tmp_path, form).any()


@pytest.mark.parametrize("value", [0.0, 1e-45, 1e-38, 1e4, 3e38])
def test_a_channel_of_any_size_keeps_its_sign_and_size_or_becomes_zero(value):
    weight = random(3, 16)
    weight[1] = value
    weight[1, ::2] *= -1
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        steps, scales = int8_steps("w", weight)
    assert (scales > 0).all()
    dense = steps[1] * scales[1]
    assert np.abs(dense - weight[1]).max() <= max(1e-30, value * 0.005)
    assert np.abs(steps[[0, 2]] * scales[[0, 2], None] - weight[[0, 2]]).max() < 0.02


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused_by_name_and_row(value, tmp_path):
    weight = random(8, 32)
    weight[5, 7] = value
    with pytest.raises(EdgeformerError, match=r"^w has a number that is not finite, in row 5"):
        product(weight, random(2, 32), tmp_path)


@pytest.mark.parametrize("choice", ["tied", "gqa"])
def test_a_table_in_int8_gives_the_rows_of_its_rounded_weights(choice, tmp_path):
    decoder = choice_decoder(choice)
    traced = trace(decoder, "prefill")
    path = written(with_int8(traced, plain(["embedding.weight"])), tmp_path)
    steps, scales = int8_steps("t", decoder.embedding.weight.detach().numpy())
    decoder.embedding.weight.data = torch.from_numpy(steps * scales[:, None])
    ids = [5 * i % decoder.config.vocab_size for i in range(20)]
    wanted = decoder(torch.tensor([ids]))[0].detach().numpy()
    found = logits_of(path, decoder.config, ids)
    tied = decoder.config.tie_embeddings  # then the head rounds its inputs too
    assert np.abs(found - wanted).max() < (0.03 if tied else 1e-4) * np.abs(wanted).max()


def test_a_tied_table_is_stored_once_and_the_file_is_small(tmp_path):
    decoder = choice_decoder("tied")
    traced = with_int8(trace(decoder, "prefill"), plain(matrices(decoder)))
    written(traced, tmp_path)
    model = onnx.load(tmp_path / "prefill.onnx", load_external_data=False)
    big = [t for t in model.graph.initializer if t.dims[:1] and np.prod(t.dims) >= 512]
    types = {t.name: t.data_type for t in big if t.name.split(".")[0] in ("blocks", "embedding")}
    assert "embedding.weight.int8" in types
    assert set(types.values()) == {onnx.TensorProto.INT8}
    assert [t.name for t in big if "embedding" in t.name] == ["embedding.weight.int8"]


def test_only_plain_operators_of_opset_13_are_used(tmp_path):
    decoder = choice_decoder("all-biases")
    forms = plain(matrices(decoder)) | {
        "head.weight": Form.FINE,
        "blocks.1.ff.up.weight": Form.ROWS,
    }
    traced = with_int8(trace(decoder, "decode"), forms)
    model = onnx.load(written(traced, tmp_path))
    assert {node.domain for node in model.graph.node} <= PLAIN
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 13)]
    names = [node.name for node in model.graph.node]
    assert len(names) == len(set(names))


def test_products_of_one_input_round_it_once():
    decoder = choice_decoder("parallel-one-norm")
    traced = with_int8(trace(decoder, "prefill"), plain(matrices(decoder)))
    made = [node.op_type for node in traced.nodes]
    layers = decoder.config.n_layers
    assert made.count("MatMulInteger") == 4 * layers + 1
    assert made.count("DynamicQuantizeLinear") == 3 * layers + 1


def test_what_is_left_out_stays_as_it_is():
    decoder = choice_decoder("gqa")
    traced = with_int8(trace(decoder, "prefill"), plain(["blocks.0.ff.up.weight"]))
    assert [n.op_type for n in traced.nodes].count("MatMulInteger") == 1
    assert "blocks.1.ff.up.weight.transpose" in traced.weights
    assert "blocks.0.ff.up.weight.transpose" not in traced.weights


@pytest.mark.parametrize(
    "name, reason",
    [
        ("nobody.weight", r"prefill\.onnx has no nobody\.weight"),
        ("blocks.0.attention_norm.weight", r"\(Mul\), which has no int8 form"),
    ],
)
def test_what_cannot_be_int8_is_refused_by_name(name, reason):
    with pytest.raises(EdgeformerError, match=reason):
        with_int8(trace(choice_decoder("gqa"), "prefill"), plain([name]))
