"""`python -m edgeformer.export inspect`: what each kind of path is, and with which exit status."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from edgeformer.export.__main__ import main
from edgeformer.nn.checkpoint import save_checkpoint
from tests import bundles
from tests.nn.choices import CHOICES, random_decoder
from tests.nn.families.models import reference
from tests.nn.sources.gguf_models import add_rest, add_rope, add_sizes, write_gguf
from tests.text.small import small_document

ROOT = Path(__file__).parents[2]
CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


@pytest.fixture(scope="module")
def model():
    return reference("llama-mqa-biases-tied")


@pytest.fixture
def folder(tmp_path, model):
    model.save_pretrained(tmp_path / "hf")
    return tmp_path / "hf"


def inspected(capsys, path, *more):
    """(status, stdout, stderr)"""
    capsys.readouterr()
    status = main(["inspect", str(path), *more])
    return (status, *capsys.readouterr())


def configure(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def sizes(model):
    count = sum(p.numel() for p in model.parameters())
    return [f"model: {count:,} parameters, ", f"fp32 {4 * count / 1000:.1f} kB, "]


def test_one_file_and_shards_of_a_folder_are_the_same_model(capsys, folder, model, tmp_path):
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    status, out, err = inspected(capsys, folder)
    assert (status, err) == (0, "")
    for said in [f"{folder}: huggingface, model type llama", "(F32 ", "positions: rope", "cache: "]:
        assert said in out
    for said in sizes(model):
        assert said in out
    shards = inspected(capsys, tmp_path / "shards")
    assert shards == (0, out.replace(str(folder), str(tmp_path / "shards")), "")


def test_a_gguf_alone_or_in_its_folder_is_told_with_its_types(capsys, tmp_path, model):
    (tmp_path / "one").mkdir()
    path = tmp_path / "one" / "m.gguf"
    write_gguf(path, model, gguf.GGMLQuantizationType.F16)
    status, out, _ = inspected(capsys, path)
    assert status == 0
    assert "m.gguf: gguf, model type llama" in out
    assert "F16 " in out
    assert sizes(model)[0] in out
    assert inspected(capsys, path.parent)[:2] == (0, out)


def test_our_own_training_output_is_told_with_its_tokenizer(capsys, tmp_path):
    document = json.dumps(small_document())
    decoder = random_decoder(dataclasses.replace(CHOICES["gqa"], vocab_size=900))
    save_checkpoint(tmp_path / "run", decoder, document, torch.bfloat16)
    status, out, _ = inspected(capsys, tmp_path / "run")
    assert status == 0
    assert ": edgeformer, model type edgeformer" in out
    assert "(BF16 " in out
    assert "tokenizer: byte-bpe, 900 ids (tokenizer.json)" in out
    assert "end tokens: 0" in out


def test_json_has_the_same_facts(capsys, folder, model):
    status, out, _ = inspected(capsys, folder, "--json")
    facts = json.loads(out)
    assert status == 0
    assert facts["exported"]["parameters"] == sum(p.numel() for p in model.parameters())
    assert (facts["tokenizer"], facts["unsupported"]) == (None, [])


def test_an_unknown_family_is_told_and_ends_with_1(capsys, folder):
    configure(folder, model_type="mamba")
    status, out, err = inspected(capsys, folder)
    assert (status, err) == (1, "")
    assert "model type mamba" in out
    assert "NOT SUPPORTED: model type 'mamba' is not supported; supported: bloom, " in out
    assert "stored: " in out


def test_words_that_an_export_would_refuse_end_with_1(capsys, folder):
    document = small_document()
    document["pre_tokenizer"] = {"type": "Later"}
    (folder / "tokenizer.json").write_text(json.dumps(document))
    status, out, _ = inspected(capsys, folder)
    assert status == 1
    assert "NOT SUPPORTED: tokenizer file tokenizer.json cannot be used: its pre_tokenizer" in out
    (folder / "tokenizer.json").write_text(json.dumps(small_document()))
    status, out, _ = inspected(capsys, folder)
    assert status == 1
    assert "NOT SUPPORTED: the tokenizer has 900 ids, but the model knows " in out
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text("{}")
    status, out, _ = inspected(capsys, folder)
    assert status == 1
    assert "has vocab.json, but no tokenizer.json; make one: " in out


def test_chat_templates_are_told_and_one_that_is_not_understood_is_a_note(capsys, tmp_path):
    config = {"vocab_size": 900, "hidden_size": 32, "intermediate_size": 48}
    config.update(num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=64)
    LlamaForCausalLM(LlamaConfig(**config)).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps(small_document()))
    templates = [
        {"name": "default", "template": CHATML},
        {"name": "later", "template": "{% if %}"},
    ]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    status, out, _ = inspected(capsys, tmp_path)
    assert status == 0
    assert "chat templates: default\n" in out
    assert "note: chat template 'later' is left out: " in out


def broken(folder, model):
    """{name: (path, what is said)} of paths that are no checkpoint, or a damaged one."""
    made = folder.parent
    weights = (folder / "model.safetensors").read_bytes()
    places = {}
    for name in ("pickle", "cut", "junk", "config"):
        places[name] = made / name
        shutil.copytree(folder, places[name])
    (places["pickle"] / "model.safetensors").unlink()
    torch.save({}, places["pickle"] / "pytorch_model.bin")
    (places["cut"] / "model.safetensors").write_bytes(weights[:-100])
    (places["junk"] / "model.safetensors").write_bytes(b"junk" * 100)
    (places["config"] / "config.json").write_text("{")
    (made / "empty").mkdir()
    (made / "text.txt").write_text("hello, this is no model")
    write_gguf(made / "m.gguf", model)
    whole = (made / "m.gguf").read_bytes()
    (made / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    (made / "head.gguf").write_bytes(whole[:100])
    return [
        (places["pickle"], "is a pickle, and loading one runs whatever program is in it"),
        (places["pickle"] / "pytorch_model.bin", "convert it to safetensors: python -c "),
        (places["cut"], "of the %d that the file has" % (len(weights) - 100 - start_of(weights))),
        (places["junk"], "is no safetensors file"),
        (places["config"], "is not JSON that can be used"),
        (made / "empty", "has no config.json and no GGUF file"),
        (made / "text.txt", "is no GGUF file"),
        (made / "cut.gguf", "download it again"),
        (made / "head.gguf", "but it ends at 100"),
        (made / "no" / "such" / "path", "does not exist; give a checkpoint folder, a GGUF file"),
        (bundles.ROPE, "is a bundle, which an export has made already; what is in it: python -m"),
    ]


def start_of(weights):
    return 8 + int.from_bytes(weights[:8], "little")


def test_what_is_no_checkpoint_is_refused_with_what_it_is(capsys, folder, model):
    for path, said in broken(folder, model):
        status, out, err = inspected(capsys, path)
        assert (status, out) == (2, ""), path
        assert err.startswith("error: "), path
        assert said in err, path


def meta_model():
    """A Llama of the 70B class, of which nothing but shapes exists."""
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=60,
        num_attention_heads=64,
        num_key_value_heads=8,
        max_position_embeddings=8192,
    )
    with torch.device("meta"):
        return LlamaForCausalLM(config)


def write_hole_safetensors(folder, model):
    """A folder whose float16 weights are a hole in the file: it has the bytes that it says."""
    folder.mkdir()
    model.config.save_pretrained(folder)
    header, end = {}, 0
    for name, tensor in model.state_dict().items():
        begin, end = end, end + 2 * tensor.numel()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    raw = json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    os.truncate(path, 8 + len(raw) + end)


def write_hole_gguf(path, model):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, model.config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, "llama")
    for add in (add_sizes, add_rope, add_rest):
        add(writer, model.config)
    size = 0
    for name, tensor in model.state_dict().items():
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        dtype = np.dtype(np.float32 if tensor.dim() == 1 else np.float16)
        count = tensor.numel() * dtype.itemsize
        writer.add_tensor_info(new, list(tensor.shape), dtype, count)
        size += -(-count // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    os.truncate(path, -(-path.stat().st_size // 32) * 32 + size)


CHILD = """
import sys
from edgeformer.export.__main__ import main
from edgeformer.export import inspect
from tests.peak import peak_bytes
before = peak_bytes()
status = main(["inspect", sys.argv[1]])
print(status, peak_bytes() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_a_hundred_gigabytes_of_weights_are_told_without_reading_one(kind, tmp_path):
    """Reading them would take minutes, and their memory no machine of ours has."""
    model = meta_model()
    count = sum(p.numel() for p in model.parameters())
    if kind == "gguf":
        path = tmp_path / "m.gguf"
        write_hole_gguf(path, model)
        weights = path
    else:
        path = tmp_path / "hole"
        write_hole_safetensors(path, model)
        weights = path / "model.safetensors"
    assert weights.stat().st_size > 100e9
    assert weights.stat().st_blocks * 512 < 10e6
    started = time.monotonic()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        timeout=100,
    )
    seconds = time.monotonic() - started
    *lines, last = child.stdout.splitlines()
    status, grown = map(int, last.split())
    assert status == 0, lines
    assert any(f"{count:,} parameters, 60 layers" in line for line in lines)
    assert any(f"fp32 {4 * count / 1e9:.2f} GB" in line for line in lines)
    assert grown < 100e6
    assert seconds < 60
