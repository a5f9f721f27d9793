"""8 bits in blocks of 64 with smoothed inputs, or in blocks of 32: what is nearer to float32."""

import dataclasses

import gguf
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from gguf.quants import dequantize, quantize

from edgeformer.nn.quantize.eight import in_8_bits, rounded
from tests.nn.choices import CHOICES, random_decoder

Q8_0 = gguf.GGMLQuantizationType.Q8_0
IDS = torch.randint(96, (6, 40), generator=torch.Generator().manual_seed(3))


def wide(choice="gqa", uneven=0.0, **changes):
    """A decoder of 128 and 256 inputs, some channels of whose norms are larger than others."""
    config = dataclasses.replace(CHOICES[choice], d_model=128, d_ff=256, head_dim=16, **changes)
    decoder = random_decoder(config, 1, 0.35)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for block in decoder.blocks:
            for norm, linear in (
                (block.attention_norm, block.attention.qkv),
                (block.ff_norm, block.ff.up),
            ):
                large = torch.exp(uneven * torch.randn(128, generator=generator))
                norm.weight.mul_(large)
                linear.weight.div_(large)
    return decoder


def test_large_channels_make_smoothed_blocks_of_64_the_nearer_ones():
    decoder = wide(uneven=1.5)
    before = {name: tensor.clone() for name, tensor in decoder.state_dict().items()}
    found = in_8_bits(decoder, IDS)
    assert found.kl[64] < 0.8 * found.kl[32]
    assert {blocks.format.block for blocks in found.blocks.values()} == {64}
    assert found.name.startswith("n8 b64, inputs smoothed; KL on the calibration text 0.")
    norms = {"blocks.0.attention_norm.weight", "blocks.1.ff_norm.weight", "final_norm.weight"}
    assert norms <= set(found.folded) and found.rows is None
    for name, tensor in decoder.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_blocks_of_32_stay_where_they_are_nearer():
    found = in_8_bits(wide(), IDS)
    assert found.kl[32] < found.kl[64]
    assert {blocks.format.block for blocks in found.blocks.values()} == {32}
    assert not found.folded and found.name.startswith("n8 b32; KL on the calibration text 0.")


def test_a_model_of_q8_0_keeps_its_numbers_unless_64_is_asked_for():
    decoder = wide(uneven=1.5)
    for block in decoder.blocks:
        for linear in (block.attention.qkv, block.attention.out, block.ff.up, block.ff.down):
            w = dequantize(quantize(linear.weight.detach().numpy(), Q8_0), Q8_0)
            linear.weight.data = torch.from_numpy(w.astype(np.float32))
    found = in_8_bits(decoder, IDS)
    for name, blocks in found.blocks.items():
        if name.startswith("blocks."):
            assert torch.equal(blocks.dense(), decoder.get_parameter(name)), name
    assert found.kl == {} and found.name == "n8 b32"
    assert in_8_bits(decoder, IDS, 64).name == "n8 b64, inputs smoothed"


def test_widths_that_are_no_whole_blocks_of_64_have_blocks_of_32():
    found = in_8_bits(random_decoder(dataclasses.replace(CHOICES["gqa"], d_ff=96), 1), IDS)
    assert {blocks.format.block for blocks in found.blocks.values()} == {32} and not found.kl
    config = dataclasses.replace(CHOICES["gqa"], d_model=128, d_ff=96)
    sizes = {
        n: b.format.block for n, b in in_8_bits(random_decoder(config, 1), IDS, 64).blocks.items()
    }
    assert sizes["blocks.0.ff.up.weight"] == 64 and sizes["blocks.0.ff.down.weight"] == 32


def test_a_head_that_is_the_embedding_tells_what_its_rows_are_divided_by():
    decoder = wide("tied", 1.0)
    found = in_8_bits(decoder, IDS, 64)
    table = found.blocks["embedding.weight"].dense() / found.rows
    step = decoder.embedding.weight.abs().amax() / 100
    assert (table - decoder.embedding.weight).abs().max() < step
    norm = found.folded["final_norm.weight"] * found.rows
    assert torch.allclose(norm, decoder.final_norm.weight, rtol=1e-5)
    assert "embedding.weight" not in found.folded


@pytest.mark.parametrize("block", [32, 64])
def test_inputs_are_rounded_block_by_block_as_the_operator_does(block):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 128, generator=generator) * torch.linspace(0.01, 4, 128)
    w = torch.randint(-128, 128, (16, 128), generator=generator)
    scales = torch.ones(16, 128 // block)
    inputs = {"B": (w + 128).to(torch.uint8).reshape(16, -1, block), "s": scales.reshape(-1)}
    node = onnx.helper.make_node(
        "MatMulNBits",
        ["x", "B", "s"],
        ["y"],
        domain="com.microsoft",
        K=128,
        N=16,
        bits=8,
        block_size=block,
        accuracy_level=4,
    )
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [value("x", 1, [5, 128])],
        [value("y", 1, [5, 16])],
        [onnx.numpy_helper.from_array(t.numpy(), name) for name, t in inputs.items()],
    )
    sets = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=sets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x.numpy()})
    exact, ours = (part @ w.float().t() for part in (x, rounded(x, block)))
    gap = float((ours - exact).abs().mean())
    assert float((torch.from_numpy(found) - ours).abs().mean()) < 0.2 * gap
