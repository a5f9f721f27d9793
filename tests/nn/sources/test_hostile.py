"""Files that lie: a clear error, no hang, no memory. Links and names from files included."""

import contextlib
import json
import os
import struct
import subprocess
import sys
import time

import gguf
import numpy as np
import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.nn.families.load import load_decoder, plan_decoder
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.gguf_file import GgufFile
from edgeformer.nn.sources.inspect import describe
from edgeformer.nn.sources.safetensors import SafetensorsFile
from tests.nn.families.models import logit_error, reference
from tests.nn.sources.gguf_models import write_gguf

SECONDS = 60  # a hang, on a machine that is busy otherwise; most take milliseconds


@pytest.fixture(autouse=True)
def no_hang():
    before = time.monotonic()
    yield
    assert time.monotonic() - before < SECONDS


@pytest.fixture
def folder(tmp_path):
    reference("llama-mha").save_pretrained(tmp_path)
    return tmp_path


def safetensors_file(path, header, data=b"\0" * 64, length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    count = len(raw) if length is None else length
    path.write_bytes(struct.pack("<Q", count) + raw + data)
    return path


def entry(dtype="F32", shape=(4,), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HEADERS = {
    "length beyond the file": (b"{}", 2**40),
    "length of 2**64 - 1": (b"{}", 2**64 - 1),
    "no JSON": (b"{", None),
    "a list": (b"[]", None),
    "deep": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, None),
    "deep lists": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    "a number of many digits": (b'{"a":' + b"9" * 100_000 + b"}", None),
    "not UTF-8": (b'{"\xff": 1}', None),
    "one name twice": (b'{"a":' + json.dumps(entry()).encode() + b',"a":1}', None),
    "entry is a number": ({"a": 7}, None),
    "no dtype": ({"a": {"shape": [4], "data_offsets": [0, 16]}}, None),
    "unknown dtype": ({"a": entry("F13")}, None),
    "dtype is a list": ({"a": entry(["F32"])}, None),
    "a shape too large": ({"a": entry(shape=(2**40, 2**40))}, None),
    "a negative size": ({"a": entry(shape=(-4,))}, None),
    "a fractional size": ({"a": entry(shape=(4.0,))}, None),
    "a shape of a thousand": ({"a": entry(shape=(1,) * 1000)}, None),
    "a zero beside a giant": ({"a": entry(shape=(0, 2**62), offsets=(0, 4))}, None),
    "offsets beyond the file": ({"a": entry(offsets=(0, 2**50))}, None),
    "offsets backwards": ({"a": entry(offsets=(16, 0))}, None),
    "three offsets": ({"a": entry(offsets=(0, 16, 32))}, None),
    "too few bytes": ({"a": entry(shape=(5,))}, None),
    "overlap": ({"a": entry(), "b": entry(offsets=(8, 24))}, None),
    "one inside another": ({"a": entry(shape=(8,), offsets=(0, 32)), "b": entry()}, None),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_false_safetensors_header_is_refused(case, tmp_path):
    header, length = HEADERS[case]
    with pytest.raises(EdgeformerError):
        SafetensorsFile(safetensors_file(tmp_path / "a.safetensors", header, length=length))


def test_safetensors_cut_anywhere_are_refused(tmp_path):
    whole = safetensors_file(tmp_path / "a.safetensors", {"a": entry()}, b"\0" * 16)
    SafetensorsFile(whole)
    raw = whole.read_bytes()
    for size in range(len(raw)):
        whole.write_bytes(raw[:size])
        with pytest.raises(EdgeformerError):
            SafetensorsFile(whole)


def test_a_file_that_shrinks_after_it_was_opened_is_an_error(tmp_path):
    path = safetensors_file(tmp_path / "a.safetensors", {"a": entry()}, b"\0" * 16)
    file = SafetensorsFile(path)
    os.truncate(path, 8)
    with pytest.raises(EdgeformerError, match="cannot map"):
        file.load("a")


# GGUF


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_bytes(keys=b"", n_keys=0, tensors=b"", n_tensors=0, magic=b"GGUF", version=3, data=64):
    head = magic + struct.pack("<IQQ", version, n_tensors, n_keys) + keys + tensors
    return head + b"\0" * (-len(head) % 32) + b"\0" * data


def key(name, kind, raw):
    return text(name) + struct.pack("<I", kind) + raw


def tensor(name="w", shape=(4,), kind=0, offset=0):
    raw = text(name) + struct.pack("<I", len(shape))
    return raw + struct.pack(f"<{len(shape)}QIQ", *shape, kind, offset)


def array(kind, count, raw=b""):
    return struct.pack("<IQ", kind, count) + raw


GGUFS = {
    "another magic": gguf_bytes(magic=b"GGML"),
    "version 1": gguf_bytes(version=1),
    "version 99": gguf_bytes(version=99),
    "big-endian": gguf_bytes(version=3 << 24),
    "2**63 keys": gguf_bytes(n_keys=2**63),
    "2**63 tensors": gguf_bytes(n_tensors=2**63),
    "65,536 keys that are not there": gguf_bytes(n_keys=65536),
    "a key of 2**60 bytes": gguf_bytes(struct.pack("<Q", 2**60), 1),
    "a key that is not UTF-8": gguf_bytes(key(b"\xff\xfe", 4, b"\0" * 4), 1),
    "a text of 2**62 bytes": gguf_bytes(key("a", 8, struct.pack("<Q", 2**62)), 1),
    "a value of type 77": gguf_bytes(key("a", 77, b"\0" * 8), 1),
    "an array of 2**61 numbers": gguf_bytes(key("a", 9, array(4, 2**61)), 1),
    "an array of 2**61 texts": gguf_bytes(key("a", 9, array(8, 2**61)), 1),
    "an array of arrays": gguf_bytes(key("a", 9, array(9, 2**40, array(9, 2**40))), 1),
    "one key twice": gguf_bytes(key("a", 4, b"\0" * 4) * 2, 2),
    "alignment 0": gguf_bytes(key("general.alignment", 4, b"\0" * 4), 1),
    "alignment 2**31": gguf_bytes(key("general.alignment", 4, b"\0\0\0\x80"), 1),
    "no dimensions": gguf_bytes(tensors=tensor(shape=()), n_tensors=1),
    "two thousand dimensions": gguf_bytes(tensors=tensor(shape=(1,) * 2000), n_tensors=1),
    "a dimension of 0": gguf_bytes(tensors=tensor(shape=(0,)), n_tensors=1),
    "2**60 elements": gguf_bytes(tensors=tensor(shape=(2**30, 2**30)), n_tensors=1),
    "a size that overflows": gguf_bytes(tensors=tensor(shape=(2**62, 2**62)), n_tensors=1),
    "a type that does not exist": gguf_bytes(tensors=tensor(kind=999), n_tensors=1),
    "a type that was removed": gguf_bytes(tensors=tensor(kind=4), n_tensors=1),
    "a row that is no whole block": gguf_bytes(tensors=tensor(shape=(33,), kind=8), n_tensors=1),
    "beyond the file": gguf_bytes(tensors=tensor(offset=2**40), n_tensors=1),
    "just beyond the file": gguf_bytes(tensors=tensor(shape=(17,)), n_tensors=1),
    "overlap": gguf_bytes(tensors=tensor("a") + tensor("b", offset=8), n_tensors=2),
    "one tensor twice": gguf_bytes(tensors=tensor() + tensor(offset=32), n_tensors=2),
}


@pytest.mark.parametrize("case", GGUFS)
def test_a_false_gguf_is_refused(case, tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(GGUFS[case])
    with pytest.raises(EdgeformerError):
        GgufFile(path)


@pytest.fixture
def small_gguf(tmp_path):
    path = tmp_path / "model.gguf"
    write_gguf(path, reference("llama-mqa-biases-tied"))
    return path


def test_a_gguf_cut_anywhere_is_refused(small_gguf):
    raw = small_gguf.read_bytes()
    for size in [*range(0, 600), *range(600, len(raw), 997), len(raw) - 33]:
        small_gguf.write_bytes(raw[:size])
        with pytest.raises(EdgeformerError):
            GgufFile(small_gguf)


def test_changed_bytes_are_an_error_or_a_model_never_a_crash(small_gguf):
    """Longer runs found what the cases above hold; this keeps a short one alive."""
    raw, random = small_gguf.read_bytes(), np.random.default_rng(0)
    end = raw.index(b"token_embd") + 2000
    for _ in range(150):
        changed = bytearray(raw)
        for at in random.integers(0, end, random.integers(1, 6)):
            changed[at] = random.integers(0, 256)
        small_gguf.write_bytes(changed)
        with contextlib.suppress(EdgeformerError):
            describe(open_source(small_gguf))


def add_keys(path, **values):
    write_gguf(path, reference("llama-mha"), **{k.replace("__", "."): v for k, v in values.items()})
    return path


@pytest.mark.parametrize(
    "keys, message",
    [
        ({"llama__expert_count": 8}, r"llama\.expert_count.*not understood"),
        ({"llama__attention__causal": False}, r"attention\.causal"),
        ({"llama__rope__scaling__type": "su"}, "kind 'su'"),
        ({"llama__attention__clamp_kqv": 4.0}, r"clamp_kqv"),
        ({"split__count": 3}, "one of 3 parts; join them"),
        ({"general__type": "adapter"}, "type 'adapter'"),
        ({"llama__vocab_size": 99}, r"token|embed_tokens.weight \[83, 36\].*\[99, 36\]"),
    ],
)
def test_metadata_that_changes_the_model_is_refused_by_name(keys, message, tmp_path):
    with pytest.raises(EdgeformerError, match=message):
        plan_decoder(open_source(add_keys(tmp_path / "m.gguf", **keys)))


def test_an_unknown_architecture_is_refused_by_name(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "rwkv7")
    writer.add_tensor("w", np.zeros((2, 2), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(EdgeformerError, match="'rwkv7' is not supported"):
        plan_decoder(open_source(tmp_path / "m.gguf"))


def test_vocabulary_templates_ends_and_licence_are_read_from_the_metadata(tmp_path):
    path = add_keys(
        tmp_path / "m.gguf",
        tokenizer__ggml__tokens=[f"t{i}" for i in range(83)],
        tokenizer__ggml__eos_token_id=2,
        tokenizer__ggml__eot_token_id=9,
        tokenizer__ggml__eom_token_id=200,
        tokenizer__chat_template="a",
        tokenizer__chat_template__tool_use="b",
        general__license="mit",
    )
    source = open_source(path)
    assert source.metadata["tokenizer.ggml.tokens"][82] == "t82"
    assert source.eos_token_ids == [2, 9]
    assert source.chat_templates == {"default": "a", "tool_use": "b"}
    assert source.license == "mit"
    load_decoder(source)


# Folders


@pytest.mark.parametrize(
    "name",
    ["../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..", "model.bin", 7, None]
    + ["a\\b.safetensors", "model.safetensors\n", ""],
)
def test_an_index_may_only_name_files_beside_it(folder, name):
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    index = {"weight_map": {"model.norm.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(EdgeformerError, match="plain name"):
        open_source(folder)


@pytest.mark.parametrize("index", [{}, {"weight_map": []}, {"weight_map": {}}, [1]], ids=str)
def test_an_index_without_a_map_is_refused(folder, index):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(EdgeformerError):
        open_source(folder)


def test_an_index_that_promises_what_a_file_has_not_is_refused(folder):
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    index = {"weight_map": {"model.norm.weight": "a.safetensors", "ghost": "a.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(EdgeformerError, match=r"'ghost' is in a\.safetensors, but it is not"):
        open_source(folder)


def test_a_tensor_in_two_shards_is_refused(folder):
    raw = (folder / "model.safetensors").read_bytes()
    for name in ("a.safetensors", "b.safetensors"):
        (folder / name).write_bytes(raw)
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"model.norm.weight": "a.safetensors", "x": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(EdgeformerError, match="and in"):
        open_source(folder)


def test_links_are_followed_as_the_hubs_cache_needs(folder, tmp_path_factory):
    cache = tmp_path_factory.mktemp("snapshot")
    for path in folder.iterdir():
        (cache / path.name).symlink_to(path)
    assert logit_error(reference("llama-mha"), load_decoder(open_source(cache))) <= 1e-4


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer_config.json"])
def test_a_pipe_is_refused_at_once(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(EdgeformerError, match="not a regular file"):
        open_source(folder)


@pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt"])
def test_a_pickle_is_refused_with_the_way_out(folder, suffix):
    path = (folder / "model.safetensors").rename(folder / f"pytorch_model{suffix}")
    for what in (folder, path):
        with pytest.raises(EdgeformerError, match=r"is a pickle.*save_pretrained\("):
            open_source(what)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("raw", [b'{"a":' * 99_999, b"[" * 10**6, b"\xff", b"", b"null", b"[1]"])
def test_false_json_beside_the_weights_is_refused(folder, name, raw):
    (folder / name).write_bytes(raw)
    with pytest.raises(EdgeformerError, match=name):
        open_source(folder)


def test_json_of_strange_shapes_is_no_crash(folder):
    for name, values in {
        "tokenizer_config.json": {"eos_token": {"content": []}, "added_tokens_decoder": [1]},
        "tokenizer.json": {"added_tokens": {"a": 1}, "model": {"vocab": [["a", 1]]}},
        "generation_config.json": {"eos_token_id": {"a": 1}},
    }.items():
        (folder / name).write_text(json.dumps(values))
    assert open_source(folder).eos_token_ids == [2]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": [{"name": 1}]}))
    with pytest.raises(EdgeformerError, match="chat_template"):
        open_source(folder)


def test_what_is_no_checkpoint_is_told_so(tmp_path):
    for path, message in (
        (tmp_path / "nowhere" / "at" / "all", "does not exist"),
        (tmp_path, "no config.json and no GGUF"),
    ):
        with pytest.raises(EdgeformerError, match=message):
            open_source(path)
    (tmp_path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(EdgeformerError, match="give its folder"):
        open_source(tmp_path / "weights.safetensors")
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(EdgeformerError, match=r"2 GGUF files; give one: a\.gguf, b\.gguf"):
        open_source(tmp_path)


MEMORY = """
import sys
from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.inspect import describe
from tests.peak import peak_bytes
before = peak_bytes()
for path in sys.argv[1:]:
    try:
        describe(open_source(path))
    except EdgeformerError:
        pass
after = peak_bytes()
print(before >> 20, after >> 20)
"""


@pytest.mark.slow
def test_memory_stays_below_a_gigabyte(tmp_path, folder):
    """Full headers of the values that cost most memory for each byte of the file."""
    texts = key("a", 9, array(8, 6_000_000, text("ab") * 6_000_000))
    (tmp_path / "texts.gguf").write_bytes(gguf_bytes(texts, 1))
    giant = tmp_path / "giant.gguf"
    giant.write_bytes(gguf_bytes(tensors=tensor(shape=(2**36,)), n_tensors=1))
    os.truncate(giant, 2**39)  # sparse: it has the bytes that it says
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "config.json").write_bytes((folder / "config.json").read_bytes())
    safetensors_file(lists / "model.safetensors", b'{"a":[' + b"{}," * 5_000_000 + b"0]}")
    paths = [str(tmp_path / "texts.gguf"), str(giant), str(lists)]
    ran = subprocess.run([sys.executable, "-c", MEMORY, *paths], stdout=subprocess.PIPE, check=True)
    before, after = map(int, ran.stdout.split())
    assert after < 1000, f"{before} MB before, {after} MB after"
