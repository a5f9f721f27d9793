"""Blocks of small integers: what they stand for, how they are packed, what a scale is worth."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from gguf.quants import quantize as gguf_quantize

from edgeformer.errors import EdgeformerError
from edgeformer.nn.quantize import Format, gptq, nearest, searched

FORMATS = [
    Format(bits, block, symmetric)
    for bits in (4, 8)
    for block in (16, 32, 128)
    for symmetric in (True, False)
]
NAMES = [format.name for format in FORMATS]


def weights(outputs=24, inputs=100, seed=0):
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed))


def run_matmul_nbits(blocks, x):
    """x times the matrix, transposed, as ONNX Runtime computes it."""
    outputs, inputs = blocks.shape
    parts = blocks.packed()
    node = onnx.helper.make_node(
        "MatMulNBits",
        ["x", *parts],
        ["y"],
        domain="com.microsoft",
        K=inputs,
        N=outputs,
        bits=blocks.format.bits,
        block_size=blocks.format.block,
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, inputs])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, outputs])],
        [onnx.numpy_helper.from_array(array, name) for name, array in parts.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("format", FORMATS, ids=NAMES)
@pytest.mark.parametrize("inputs", [96, 100, 7])
def test_onnx_runtime_computes_with_the_matrix_that_the_blocks_stand_for(format, inputs):
    blocks = nearest(weights(inputs=inputs), format)
    x = np.random.default_rng(0).standard_normal((3, inputs)).astype(np.float32)
    expected = x.astype(np.float64) @ blocks.dense().double().numpy().T
    assert np.abs(run_matmul_nbits(blocks, x) - expected).max() < 1e-4


@pytest.mark.parametrize("format", FORMATS, ids=NAMES)
def test_a_weight_is_off_by_half_a_step_at_most(format):
    w = weights()
    blocks = nearest(w, format)
    # On the shorter side of a symmetric block the last half step is cut off.
    allowed = blocks.scales.abs().repeat_interleave(format.block, 1)[:, :100]
    allowed = allowed * (1.001 if format.symmetric else 0.501 + 0.5)
    assert ((blocks.dense() - w).abs() <= allowed).all()


def test_numbers_on_the_grid_stay_as_they_are():
    grid = torch.randint(0, 16, (5, 64), generator=torch.Generator().manual_seed(1))
    grid[:, 0::32] = 0  # every block has its largest step, so that the scale is found
    w = (grid - 8) * 0.37
    for blocks in (nearest(w, Format(4)), searched(w, Format(4))):
        assert torch.allclose(blocks.dense(), w, atol=1e-6)


def test_a_searched_scale_is_closer_than_the_nearest_value():
    w = weights(64, 256)
    for format in FORMATS:
        before = (nearest(w, format).dense() - w).square().mean()
        after = (searched(w, format).dense() - w).square().mean()
        assert after < before, format.name


def test_inputs_that_matter_more_are_held_better():
    w = weights(64, 256)
    importance = torch.ones(256)
    importance[::8] = 100.0
    plain = (searched(w, Format(4)).dense() - w)[:, ::8].square().mean()
    weighted = (searched(w, Format(4), importance).dense() - w)[:, ::8].square().mean()
    assert weighted < 0.8 * plain


@pytest.mark.parametrize("symmetric", [True, False])
def test_gptq_changes_the_output_less_than_a_searched_scale(symmetric):
    format = Format(4, 32, symmetric)
    generator = torch.Generator().manual_seed(2)
    mixed = torch.randn(96, 96, generator=generator)
    x = torch.randn(500, 96, generator=generator) @ mixed  # inputs that belong together
    w = weights(40, 96)
    moments = x.t() @ x

    def change(blocks):
        return ((x @ (blocks.dense() - w).t()).square()).mean()

    assert change(gptq(w, format, moments)) < 0.7 * change(searched(w, format, moments.diagonal()))


def test_gptq_without_any_input_still_gives_the_nearest_values():
    w = weights(8, 64)
    blocks = gptq(w, Format(8), torch.zeros(64, 64))
    assert (blocks.dense() - w).abs().max() < 0.05


def test_gptq_refuses_moments_that_are_no_numbers():
    with pytest.raises(EdgeformerError, match="no numbers"):
        gptq(weights(8, 64), Format(4), torch.full((64, 64), float("nan")))


@pytest.mark.parametrize("value", [0.0, 1e-38, 1e-45])
@pytest.mark.parametrize("format", FORMATS, ids=NAMES)
def test_blocks_of_nearly_nothing_become_zeros_and_no_nan(format, value):
    w = torch.full((2, 40), value)
    for blocks in (nearest(w, format), searched(w, format), gptq(w, format, torch.eye(40))):
        assert torch.isfinite(blocks.scales).all()
        assert (blocks.dense() - w).abs().max() <= 1e-37


def test_one_huge_weight_costs_only_its_own_block():
    w = weights(4, 96)
    w[1, 40] = 1e4
    wrong = (searched(w, Format(8)).dense() - w).abs()
    wrong[1, 32:64] = 0
    assert wrong.max() < 0.05


def test_nbytes_is_what_is_packed():
    for format in FORMATS:
        blocks = nearest(weights(), format)
        assert blocks.nbytes == sum(array.nbytes for array in blocks.packed().values())


@pytest.mark.parametrize("bits, block", [(3, 32), (4, 20), (4, 512)])
def test_unknown_formats_are_refused(bits, block):
    with pytest.raises(EdgeformerError, match="bits must be 4 or 8"):
        Format(bits, block)


def test_nearest_values_are_as_good_as_those_of_llama_cpp():
    w = weights(16, 256)
    theirs = gguf_quantize(w.numpy(), GGMLQuantizationType.Q4_0)
    theirs = torch.from_numpy(dequantize(theirs, GGMLQuantizationType.Q4_0))
    ours = nearest(w, Format(4)).dense()
    assert (ours - w).square().mean() <= 1.01 * (theirs - w).square().mean()
