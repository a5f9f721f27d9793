"""Weights are in memory once: measured on files that are large beside everything else."""

import json
import subprocess
import sys

import gguf
import numpy as np
import pytest
import safetensors.torch
import torch

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.decoder import Decoder

LOAD = """
import sys
import torch
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.sources import open_source
from tests.peak import peak_bytes
torch.set_num_threads(1)
source = open_source(sys.argv[1])
load_decoder(open_source(sys.argv[2]))  # what torch imports at first use
before = peak_bytes()
decoder = load_decoder(source, max_positions=64)
after = peak_bytes()
print(after - before, 4 * sum(p.numel() for p in decoder.parameters()))
"""


def config(width, vocab):
    return ModelConfig(
        vocab_size=vocab, d_model=width, n_layers=4, n_heads=8, d_ff=2 * width, max_positions=64
    )


def save(folder, width, vocab, dtype):
    """Our own checkpoint, whose weights are all 0.5."""
    folder.mkdir()
    with torch.device("meta"):
        shapes = {name: t.shape for name, t in Decoder(config(width, vocab)).state_dict().items()}
    tensors = {name: torch.full(shape, 0.5, dtype=dtype) for name, shape in shapes.items()}
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config(width, vocab).to_json()))
    return folder


def save_gguf(path, width, vocab):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(4)
    writer.add_feed_forward_length(2 * width)
    writer.add_head_count(8)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, rows, columns in (
        ("token_embd", vocab, width),
        *((f"blk.{i}.attn_{p}", width, width) for i in range(4) for p in ("q", "k", "v", "output")),
        *((f"blk.{i}.ffn_{p}", 2 * width, width) for i in range(4) for p in ("gate", "up")),
        *((f"blk.{i}.ffn_down", width, 2 * width) for i in range(4)),
    ):
        block = np.zeros((rows, columns // 32, 34), np.uint8)
        block[:, :, 1] = 0x20
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(f"{name}.weight", block.reshape(rows, -1), raw_dtype=kind)
    for name in ("output_norm", *(f"blk.{i}.{n}_norm" for i in range(4) for n in ("attn", "ffn"))):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16, "gguf"], ids=str)
def test_loading_takes_the_weights_once_and_little_more(kind, tmp_path):
    """The embedding is most of the model, so a second copy of it would show."""
    small = save(tmp_path / "small", 32, 16, torch.float32)
    if kind == "gguf":
        large = save_gguf(tmp_path / "large.gguf", 1024, 40_000)
    else:
        large = save(tmp_path / "large", 1024, 40_000, kind)
    command = [sys.executable, "-c", LOAD, str(large), str(small)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    grown, weights = map(int, ran.stdout.split())
    assert weights > 2e8
    assert grown < 1.15 * weights + 5e7, f"{grown:.3g} bytes for weights of {weights:.3g}"
