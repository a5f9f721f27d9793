"""Every type that the gguf package undoes, in a whole model and block by block."""

import gguf
import numpy as np
import pytest
import torch
import transformers

from edgeformer.errors import EdgeformerError
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.gguf_file import PLAIN, GgufFile
from tests.nn.families.models import logit_error
from tests.nn.sources.gguf_models import add_rope, add_sizes, converted

Type = gguf.GGMLQuantizationType
TYPES = [*PLAIN, *gguf.quants._type_traits]
WIDTH = 256  # one block of the widest types


# Where a block has its float16 scale, and (offset, factor) of a second one that centres the values.
SCALES = dict.fromkeys(gguf.quants._type_traits, (0, None))
SCALES |= {
    Type.Q4_1: (0, (2, -7.5)),
    Type.Q5_1: (0, (2, -15.5)),
    Type.Q2_K: (80, (82, 1.5)),
    Type.Q4_K: (0, (2, 7.5)),
    Type.Q5_K: (0, (2, 15.5)),
    Type.Q3_K: (108, None),
    Type.Q6_K: (208, None),
    Type.TQ1_0: (52, None),
    Type.TQ2_0: (64, None),
}


def crafted(kind, rows, seed=0):
    """Blocks of random bytes, but for their scales: values around 0, deviating by 0.06."""
    random = np.random.default_rng(seed)
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    if kind in PLAIN:
        values = random.normal(0, 0.06, (rows, WIDTH)).astype(PLAIN[kind])
        return values.view(np.uint8).reshape(rows, -1)
    if kind == Type.BF16:
        return gguf.quantize(random.normal(0, 0.06, (rows, WIDTH)).astype(np.float32), kind)
    blocks = random.integers(0, 256, (rows * WIDTH // block, block_bytes), np.uint8)
    if kind == Type.TQ2_0:  # two bits hold -1, 0 or 1, never a fourth value
        trits = random.integers(0, 3, (len(blocks), 64, 4), np.uint8)
        blocks[:, :64] = trits @ np.array([1, 4, 16, 64], np.uint8)
    set_scales(blocks, kind, 1.0)
    if kind not in (Type.MXFP4, Type.NVFP4):
        set_scales(blocks, kind, 0.06 / gguf.dequantize(blocks, kind).std())
    return blocks.reshape(rows, -1)


def set_scales(blocks, kind, scale):
    def put(offset, value):
        blocks[:, offset : offset + 2] = np.frombuffer(np.float16(value).tobytes(), np.uint8)

    if kind == Type.MXFP4:
        blocks[:, 0] = 121  # a power of two
    elif kind == Type.NVFP4:
        blocks[:, :4] = 0x0C  # an 8-bit float for each 16 values
    elif kind == Type.IQ1_M:  # its 16 bits are the upper nibbles of four words
        bits = int(np.float16(scale).view(np.uint16))
        words = blocks[:, 48:].view(np.uint16)
        for i in range(4):
            words[:, i] = words[:, i] & 0x0FFF | (bits >> 4 * i & 15) << 12
    else:
        offset, second = SCALES[kind]
        put(offset, scale)
        if second is not None:
            put(second[0], scale * second[1])


def write_model(path, model, kind):
    """A llama whose matrices are all `crafted`; returns the same matrices in float32."""
    writer = gguf.GGUFWriter(path, "llama")
    add_sizes(writer, model.config)
    add_rope(writer, model.config)
    floats = {}
    for seed, (name, data) in enumerate(converted(model).items()):
        if data.ndim == 2:
            raw = crafted(kind, len(data), seed)
            floats[name] = raw.view(PLAIN[kind]) if kind in PLAIN else gguf.dequantize(raw, kind)
            writer.add_tensor(name, raw, raw_dtype=kind)
        else:
            floats[name] = data
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return floats


def llama():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=67,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_model_of_this_type_equals_its_float32_twin(kind, tmp_path):
    model = llama()
    floats = write_model(tmp_path / "model.gguf", model, kind)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            w = floats[names.get_name(name, try_suffixes=(".weight",))].astype(np.float32)
            if ".q_proj" in name or ".k_proj" in name:  # llama.cpp's order of rows undone
                w = w.reshape(len(w) // 64, 32, 2, -1).swapaxes(1, 2).reshape(w.shape)
            parameter.copy_(torch.from_numpy(w))
    source = open_source(tmp_path / "model.gguf")
    assert source.stored("model.layers.0.mlp.up_proj.weight").precision == kind.name
    assert logit_error(model, load_decoder(source)) <= 1e-4


def one_tensor(path, kind, raw):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("w", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile(path)


def test_q4_k_follows_its_definition(tmp_path):
    """Eight groups of 32: 6-bit scale and minimum, packed; 4-bit values."""
    raw = crafted(Type.Q4_K, 1)
    d, minimum = (v.item() for v in raw[0, :4].view(np.float16))
    scales, values = raw[0, 4:16].astype(int), raw[0, 16:].astype(int)
    expected = []
    for j in range(8):
        if j < 4:
            scale, least = scales[j] & 63, scales[j + 4] & 63
        else:
            scale = scales[j + 4] & 15 | scales[j - 4] >> 6 << 4
            least = scales[j + 4] >> 4 | scales[j] >> 6 << 4
        chunk = values[j // 2 * 32 :][:32]
        expected += list(d * scale * (chunk >> 4 if j % 2 else chunk & 15) - minimum * least)
    loaded = one_tensor(tmp_path / "w.gguf", Type.Q4_K, raw).load("w")
    assert np.allclose(loaded.numpy().ravel(), expected, rtol=1e-5, atol=1e-6)


def test_q6_k_follows_its_definition(tmp_path):
    """Sixteen groups of 16 with signed 8-bit scales; 4 low and 2 high bits a value, minus 32."""
    raw = crafted(Type.Q6_K, 1)
    low, high = raw[0, :128].astype(int), raw[0, 128:192].astype(int)
    scales, d = raw[0, 192:208].view(np.int8), raw[0, 208:].view(np.float16)[0].item()
    expected = []
    for i in range(256):
        half, at = divmod(i, 128)
        quarter, place = divmod(at, 32)
        nibble = low[half * 64 + quarter % 2 * 32 + place] >> (4 if quarter >= 2 else 0) & 15
        bits = high[half * 32 + place] >> 2 * quarter & 3
        expected.append(d * int(scales[i // 16]) * ((nibble | bits << 4) - 32))
    loaded = one_tensor(tmp_path / "w.gguf", Type.Q6_K, raw).load("w")
    assert np.allclose(loaded.numpy().ravel(), expected, rtol=1e-5, atol=1e-6)


def test_many_rows_are_dequantized_in_blocks_like_all_at_once(tmp_path, monkeypatch):
    raw = crafted(Type.Q5_K, 37)
    file = one_tensor(tmp_path / "w.gguf", Type.Q5_K, raw)
    monkeypatch.setattr("edgeformer.nn.sources.gguf_file.BLOCK", 5 * WIDTH)
    assert np.array_equal(file.load("w").numpy(), gguf.dequantize(raw, Type.Q5_K))


def test_a_type_that_cannot_be_dequantized_is_refused_by_name(tmp_path):
    block = np.zeros((1, gguf.GGML_QUANT_SIZES[Type.Q8_1][1]), np.uint8)
    with pytest.raises(EdgeformerError, match="tensor w is Q8_1, which the gguf package"):
        one_tensor(tmp_path / "w.gguf", Type.Q8_1, block).load("w")
