"""Checkpoint folders: what is written comes back; what is damaged is refused by name."""

import json
import os
import random
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from edgeformer.errors import EdgeformerError
from edgeformer.nn.checkpoint import load_checkpoint, save_checkpoint, save_tensors
from tests.nn.choices import CHOICES, choice_decoder

IDS = torch.arange(30)[None]


@pytest.fixture
def folder(tmp_path):
    save_checkpoint(tmp_path, choice_decoder("like-phi"))
    return tmp_path


def refused(folder, words: str) -> str:
    with pytest.raises(EdgeformerError) as error:
        load_checkpoint(folder)
    for word in words.split():
        assert word in str(error.value)
    assert error.value.exit_code == 2
    return str(error.value)


def change(folder, edit) -> None:
    """Rewrite the weights after `edit(tensors)`."""
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize("name", CHOICES)
@torch.no_grad()
def test_a_decoder_comes_back_bit_for_bit(name, tmp_path):
    decoder = choice_decoder(name)
    save_checkpoint(tmp_path, decoder.train())
    loaded = load_checkpoint(tmp_path)
    assert not loaded.training
    assert loaded.config == decoder.config
    assert torch.equal(loaded(IDS), decoder.eval()(IDS))
    assert all(p.requires_grad for p in loaded.parameters())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o007, 0o660), (0o077, 0o600)])
def test_every_file_of_a_checkpoint_is_for_whom_the_umask_allows(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        for name in ("model.safetensors.partial", "state.partial"):  # of a run that was killed
            (tmp_path / name).write_bytes(b"half")
            (tmp_path / name).chmod(0o400)
        save_checkpoint(tmp_path, choice_decoder("like-phi"), "{}")
        save_tensors({"x": torch.zeros(3)}, tmp_path / "state", {"done": "7"})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    names = ("config.json", "model.safetensors", "tokenizer.json", "state")
    assert modes == dict.fromkeys(names, mode)


@torch.no_grad()
def test_half_precision_is_half_the_size_and_comes_back_as_float32(tmp_path):
    decoder = choice_decoder("like-phi")
    save_checkpoint(tmp_path / "full", decoder)
    save_checkpoint(tmp_path / "half", decoder, dtype=torch.float16)
    full, half = (load_file(tmp_path / f / "model.safetensors") for f in ("full", "half"))
    assert {t.dtype for t in half.values()} == {torch.float16}
    assert all(torch.equal(half[name], t.half()) for name, t in full.items())
    loaded = load_checkpoint(tmp_path / "half")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert all(torch.equal(p, full[name].half().float()) for name, p in loaded.named_parameters())


@torch.no_grad()
def test_a_loaded_decoder_is_no_view_of_its_file(folder):
    decoder = load_checkpoint(folder)
    before = decoder(IDS)
    path = folder / "model.safetensors"
    size = path.stat().st_size
    with path.open("r+b") as file:  # in place: a mapped file would change under the decoder
        file.write(bytes(size))
    assert torch.equal(decoder(IDS), before)
    save_checkpoint(folder, decoder, "{}")
    assert torch.equal(load_checkpoint(folder)(IDS), before)
    assert (folder / "tokenizer.json").read_text() == "{}"


def test_missing_and_extra_tensors_are_named(folder):
    change(folder, lambda t: t.pop("blocks.1.ff.up.bias"))
    refused(folder, "lacks 1 blocks.1.ff.up.bias config.json")
    change(folder, lambda t: t.update({"blocks.1.ff.up.bias": torch.zeros(48), "x.bias": IDS + 0}))
    refused(folder, "has 1 x.bias")


def test_a_wrong_shape_is_refused_with_both_shapes(folder):
    change(folder, lambda t: t.update({"head.weight": torch.zeros(95, 32)}))
    refused(folder, "head.weight (95, 32) (96, 32)")


@pytest.mark.parametrize("value", (float("nan"), float("inf"), -float("inf")))
def test_a_number_that_is_none_is_refused(folder, value):
    change(folder, lambda t: t["blocks.0.attention.out.weight"].view(-1)[-1:].fill_(value))
    refused(folder, "blocks.0.attention.out.weight NaN infinity")


def test_a_float16_that_overflows_is_refused_on_saving_and_leaves_the_old_file(folder):
    decoder = load_checkpoint(folder)
    with torch.no_grad():
        decoder.embedding.weight[3, 4] = 70000.0
    old = (folder / "model.safetensors").read_bytes()
    with pytest.raises(EdgeformerError, match=r"embedding\.weight.*70000"):
        save_checkpoint(folder, decoder, dtype=torch.float16)
    assert (folder / "model.safetensors").read_bytes() == old


@pytest.mark.parametrize("dtype", (torch.int8, torch.float64, torch.bool))
def test_other_dtypes_are_refused(folder, dtype):
    change(folder, lambda t: t.update({"head_bias": torch.zeros(96, dtype=dtype)}))
    refused(folder, "head_bias F16 F32")


def test_missing_files_are_named_with_what_to_give(folder):
    (folder / "model.safetensors").unlink()
    refused(folder, "model.safetensors")
    (folder / "config.json").unlink()
    refused(folder, "config.json model.safetensors checkpoint folder")
    refused(folder / "nowhere", "nowhere config.json")


@pytest.mark.parametrize(
    "text",
    (
        "",
        "{",
        "[]",
        "null",
        '{"d_model": 1e999}',
        "[" * 100_000,
        "\xff",
        '{"n_layers": 9' + "9" * 5000,
    ),
    ids=("empty", "cut", "list", "null", "infinite", "deep", "not-utf8", "long-number"),
)
def test_a_damaged_config_is_refused(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(EdgeformerError):
        load_checkpoint(folder)


def test_a_config_of_another_model_is_refused_before_memory_is_taken(folder):
    """A vocabulary of four million rows of 65536: a terabyte, if it were believed."""
    values = json.loads((folder / "config.json").read_text())
    values.update(vocab_size=2**22, d_model=2**16)
    (folder / "config.json").write_text(json.dumps(values))
    refused(folder, "head_bias (96,) (4194304,)")


HEADERS = {
    "empty": b"",
    "three-bytes": b"\x10\x00\x00",
    "not-a-safetensors": b"PK\x03\x04" + bytes(60),
    "huge-header": struct.pack("<Q", 2**63) + b"{}",
    "header-beyond-the-file": struct.pack("<Q", 1000) + b"{}",
    "no-json": struct.pack("<Q", 4) + b"\xff\xff\xff\xff",
    "deep-json": struct.pack("<Q", 60_000) + b"[" * 60_000,
    "data-beyond-the-file": (lambda header: struct.pack("<Q", len(header)) + header)(
        b'{"head_bias":{"dtype":"F32","shape":[96],"data_offsets":[0,384]}}'
    ),
    "negative-shape": (lambda header: struct.pack("<Q", len(header)) + header)(
        b'{"head_bias":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}'
    ),
    "overlapping-shape": (lambda header: struct.pack("<Q", len(header)) + header + bytes(4))(
        b'{"head_bias":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}}'
    ),
}


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers_are_refused(folder, name):
    (folder / "model.safetensors").write_bytes(HEADERS[name])
    refused(folder, "model.safetensors")


def test_truncated_and_flipped_files_never_crash(folder):
    """Each gives the decoder or an error of ours; a cut file never gives the decoder."""
    path = folder / "model.safetensors"
    whole, chooser = path.read_bytes(), random.Random(0)
    for _ in range(20):
        path.write_bytes(whole[: chooser.randrange(len(whole))])
        refused(folder, "model.safetensors")
    for _ in range(40):
        data = bytearray(whole)
        data[chooser.randrange(4000)] ^= 1 << chooser.randrange(8)  # most of them in the header
        path.write_bytes(bytes(data))
        try:
            load_checkpoint(folder)
        except EdgeformerError as error:
            assert "model.safetensors" in str(error)
