"""A checkpoint with more than 2 GiB of weights: protobuf's limit, offsets beyond INT32, memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from edgeformer.bundle import Bundle

ROOT = Path(__file__).resolve().parents[2]
# Of the shape of Qwen3-0.6B, with wider layers and without its norms of queries and keys.
CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "eos_token_id": 2,
}


def write_checkpoint(folder):
    """Random bfloat16 weights, one file a layer, as large checkpoints come in shards."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    c, generator = CONFIG, torch.Generator().manual_seed(0)
    width, kv = c["hidden_size"], c["num_key_value_heads"] * 64

    def random(*shape, deviation):
        return (torch.randn(shape, generator=generator) * deviation).bfloat16()

    def matrix(rows, columns):
        return random(rows, columns, deviation=1.7 / columns**0.5)

    def norm():
        return torch.ones(width, dtype=torch.bfloat16)

    places = {}

    def save(file, tensors):
        save_file(tensors, folder / file, metadata={"format": "pt"})
        places.update(dict.fromkeys(tensors, file))

    table = random(c["vocab_size"], width, deviation=0.05)
    save("ends.safetensors", {"model.embed_tokens.weight": table, "model.norm.weight": norm()})
    for i in range(c["num_hidden_layers"]):
        layer = {
            "input_layernorm.weight": norm(),
            "post_attention_layernorm.weight": norm(),
            "self_attn.o_proj.weight": matrix(width, width),
            "mlp.gate_proj.weight": matrix(c["intermediate_size"], width),
            "mlp.up_proj.weight": matrix(c["intermediate_size"], width),
            "mlp.down_proj.weight": matrix(width, c["intermediate_size"]),
        }
        for name, rows in (("q", width), ("k", kv), ("v", kv)):
            layer[f"self_attn.{name}_proj.weight"] = matrix(rows, width)
            layer[f"self_attn.{name}_proj.bias"] = random(rows, deviation=0.1)
        save(f"{i}.safetensors", {f"model.layers.{i}.{name}": t for name, t in layer.items()})
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def run(*command):
    """Exit status and peak memory in bytes of our program in a process of its own."""
    child = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT)
    _, status, used = os.wait4(child.pid, 0)
    return os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024


@pytest.mark.slow
def test_more_than_2_gib_export_within_1_6_times_their_size(tmp_path):
    write_checkpoint(tmp_path / "large")
    bundle = str(tmp_path / "bundle")
    export = ("--model", str(tmp_path / "large"), "--capacity", "128", "-o", bundle)
    status, peak = run("edgeformer.export", *export)
    assert status == 0
    weights = (tmp_path / "bundle" / "weights.bin").stat().st_size
    print(f"weights {weights / 1e9:.2f} GB, peak {peak / 1e9:.2f} GB, {peak / weights:.2f} times")
    assert weights > 2**31
    assert peak < 1.6 * weights
    assert run("edgeformer", "check", bundle)[0] == 0  # the last offsets are right, too
    assert len(set(Bundle.open(bundle).manifest.golden.greedy_ids)) >= 16
