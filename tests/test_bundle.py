"""Bundles as strangers send them: each damage is one BundleError that names it."""

import copy
import json
import os
import shutil

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle, manifest_json, read_manifest
from edgeformer.contract import portable_graph
from edgeformer.errors import BundleError, EdgeformerError
from edgeformer.manifest import Manifest, parse_manifest
from edgeformer.onnxfile import external_data
from tests import bundles


def changed(path, value):
    """A function that sets one value deep in a manifest; DELETE removes it."""

    def change(data):
        for key in path[:-1]:
            data = data[key]
        if value is DELETE:
            del data[path[-1]]
        else:
            data[path[-1]] = copy.deepcopy(value)

    return change


DELETE = object()

# (where, value, what the error must name)
REFUSED = [
    (["format"], 1, "export the bundle again"),
    (["format"], 7, "format 7"),
    (["format"], True, "format true"),
    (["format"], "1", "format"),
    (["format"], DELETE, "format"),
    (["colour"], "red", "colour"),
    (["golden", "extra"], 1, "extra"),
    (["files", "weights.bin", "mode"], 1, "mode"),
    (["graphs", "verify"], {}, "verify"),
    (["capacity"], DELETE, "capacity"),
    (["capacity"], 0, "capacity"),
    (["capacity"], 121, "120"),  # max_positions
    (["capacity"], 1.5, "capacity"),
    (["capacity"], True, "capacity"),
    (["chunk"], 0, "chunk"),
    (["chunk"], "16", "chunk"),
    (["name"], None, "name"),
    (["producer"], [], "producer"),
    (["producer", "torch"], 2, "torch"),
    (["source", "sha256"], "0", "sha256"),
    (["target"], "jetson-xavier", "jetson-xavier"),
    (["target"], ["cpu"], "target"),
    (["dialect"], "ort", "dialect"),
    (["precision"], "int4", "int4"),
    (["min_onnxruntime"], "newest", "newest"),
    (["model"], [], "model"),
    (["model", "n_layers"], 3, "past.2.key is missing"),
    (["model", "n_layers"], 2**31 - 1, "n_layers"),
    (["model", "head_dim"], 16, "past.0.key"),
    (["model", "vocab_size"], DELETE, "vocab_size"),
    (["graphs", "prefill", "file"], "other.onnx", "other.onnx"),
    (["graphs", "prefill", "inputs"], {}, "inputs"),
    (["graphs", "prefill", "inputs", 0, "dtype"], "int64", "token_ids"),
    (["graphs", "prefill", "inputs", 0, "shape"], ["T", 1], "token_ids"),
    (["graphs", "prefill", "inputs", 0, "shape"], [0], "shape"),
    (["graphs", "decode", "inputs", 0, "shape"], ["T"], "token_ids"),
    (["tokenizer", "kind"], "sentencepiece", "sentencepiece"),
    (["tokenizer", "file"], "vocab.json", "vocab.json"),
    (["tokenizer", "bos_token_id"], 280, "280"),
    (["tokenizer", "special_tokens", "<|endoftext|>"], -1, "special_tokens"),
    (["eos_token_ids"], [0, 999], "999"),
    (["eos_token_ids"], 0, "eos_token_ids"),
    (["chat_templates"], 5, "chat_templates"),
    (["chat_templates"], {"default": "chat.jinja"}, "chat.jinja"),
    (["chat_templates"], {"default": 5}, "chat_templates"),
    (["tokenizer", "identity"], {"reference": "x"}, "identity"),
    (["tokenizer", "named_tokens"], {"bos_token": 1}, "named_tokens"),
    (["sampling", "temperature"], -1, "temperature"),
    (["sampling", "top_p"], 0, "top_p"),
    (["sampling", "top_k"], 1.5, "top_k"),
    (["sampling", "min_p"], 1.5, "min_p"),
    (["sampling", "typical_p"], 0, "typical_p"),
    (["sampling", "repetition_penalty"], 0, "repetition_penalty"),
    (["sampling", "no_repeat_ngram_size"], -1, "no_repeat_ngram_size"),
    (["dialect"], "fused", "fused"),
    (["precision"], "n8", "none for n8"),
    (["quality"], {}, "quality"),
    (["pinned"], None, "pinned"),
    (["pinned"], [{"module": "blocks.0"}], "why"),
    (["golden", "prompt_ids"], [], "golden"),
    (["golden", "greedy_ids"], list(range(100)), "golden"),
    (["golden", "greedy_ids", 3], 280, "280"),
    (["golden", "limits"], {}, "none for fp32"),
    (["golden", "limits", "fp32"], {}, "logit_error"),
    (["golden", "limits", "fp16", "kl"], -1, "kl"),
    (["golden", "top1"], 1.1, "top1"),
    (["golden", "top", "ids"], [], "for each greedy id"),
    (["golden", "top", "ids", 3], [280] * 8, "280"),
    (["golden", "top", "logits", 3], [1.0], "for each greedy id"),
    (["golden", "top", "log_sums"], [0.0], "for each greedy id"),
    (["embedding"], {}, "embedding"),
    (["precision"], "fp16", "past.0.key is float32"),
    (["golden", "largest_logit_error"], "small", "largest_logit_error"),
    (["files", "weights.bin", "bytes"], -1, "bytes"),
    (["files", "weights.bin", "sha256"], "F" * 64, "sha256"),
    (["files", "../weights.bin"], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", "/etc/passwd"], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", "a/../../b"], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", "a//b"], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", "C:\\weights"], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", "a\n"], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", ""], {"bytes": 1, "sha256": "0" * 64}, "plain path"),
    (["files", "manifest.json"], {"bytes": 1, "sha256": "0" * 64}, "manifest.json"),
    (["files", "engines/a.plan"], {"bytes": 1, "sha256": "0" * 64}, "engines"),
    (["files"], {}, "prefill.onnx"),
]


REFUSED_TABLES = [
    (["embedding"], None, "token_ids is missing"),
    (["embedding", "offset"], 0.5, "offset"),
    (["embedding", "offset"], -4096, "offset"),
    (["embedding", "offset"], 1 << 20, "which has"),
    (["embedding", "offset"], 1, "lies at 1"),
    (["embedding", "file"], "other.bin", "other.bin"),
    (["embedding", "file"], "../weights.bin", "not in files"),
    (["embedding", "dtype"], "float16", "float32 [280, 32]"),
    (["embedding", "dtype"], "float64", "float64"),
    (["embedding", "rows"], 281, "[281, 32]"),
    (["embedding", "width"], 16, "[280, 16]"),
    (["embedding", "scale"], 1.0, "scale"),
]


@pytest.mark.parametrize("path, value, named", REFUSED_TABLES)
def test_a_table_that_is_not_the_graphs_is_refused(path, value, named):
    data = bundles.read_json(bundles.HOST)
    changed(path, value)(data)
    with pytest.raises(BundleError) as caught:
        parse_manifest(data)
    assert named in str(caught.value)


def test_chat_templates_without_a_tokenizer_are_refused():
    data = bundles.read_json(bundles.ROPE)
    data.update(tokenizer=None, chat_templates={"default": "weights.bin"})
    with pytest.raises(BundleError) as caught:
        parse_manifest(data)
    assert "chat_templates and no tokenizer" in str(caught.value)


@pytest.mark.parametrize("source", bundles.BOTH)
def test_a_real_bundle_opens_and_its_hashes_hold(source):
    bundle = Bundle.open(source)
    bundle.verify_hashes()
    assert isinstance(bundle.manifest, Manifest)
    assert bundle.manifest == read_manifest(os.path.join(source, "manifest.json"))
    assert len(set(bundle.manifest.golden.greedy_ids)) >= 16


@pytest.mark.parametrize("path, value, named", REFUSED)
def test_a_manifest_is_refused_by_the_key_that_is_wrong(path, value, named):
    data = bundles.read_json(bundles.ROPE)
    changed(path, value)(data)
    with pytest.raises(BundleError) as caught:
        parse_manifest(data)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("path, value, named", REFUSED[:12])
def test_the_exporter_cannot_write_what_a_device_refuses(path, value, named):
    data = bundles.read_json(bundles.ROPE)
    changed(path, value)(data)
    with pytest.raises(BundleError) as caught:
        manifest_json(data)
    assert named in str(caught.value)


def test_manifest_json_writes_what_it_was_given():
    data = bundles.read_json(bundles.ROPE)
    data["name"] = "naïve 🙂"
    assert json.loads(manifest_json(data)) == data
    with pytest.raises(BundleError) as caught:
        manifest_json(dict(data, sampling=dict(data["sampling"], temperature=float("nan"))))
    assert "NaN" in str(caught.value)


@pytest.mark.parametrize(
    "content, named",
    [
        (b"", "not JSON"),
        (b"\x00\x01\x02", "not JSON"),
        (b"\xff\xfe{", "not JSON"),
        (b"[1]", "not an object"),
        (b"[" * 200000, "nested too deeply"),
        (b'{"a":' * 200000, "nested too deeply"),
        (b'{"format": 1, "format": 1}', "twice"),
        (b'{"format": NaN}', "NaN"),
        (b'{"format": -Infinity}', "Infinity"),
        (b'{"format": ' + b"9" * 3000000 + b"}", "digits"),
        (b'{"format": 1e999}', "format"),
        (b'{"format": 1,}', "not JSON"),
    ],
)
def test_a_manifest_that_is_not_plain_json_is_refused(tmp_path, content, named):
    bundle = bundles.copied(bundles.LEARNED, tmp_path)
    with open(os.path.join(bundle, "manifest.json"), "wb") as file:
        file.write(content)
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert named in str(caught.value)


def test_a_manifest_too_large_to_be_one_is_refused(tmp_path):
    bundle = bundles.copied(bundles.LEARNED, tmp_path)
    os.truncate(os.path.join(bundle, "manifest.json"), 17 << 20)
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert str(17 << 20) in str(caught.value)


def test_what_is_no_bundle_directory_is_refused(tmp_path):
    for path, named in [
        (tmp_path / "nowhere", "is not a directory"),
        (os.path.join(bundles.ROPE, "manifest.json"), "is not a directory"),
        (tmp_path, "has no manifest.json"),
        ("a\0b", "is not a directory"),
    ]:
        with pytest.raises(BundleError) as caught:
            Bundle.open(path)
        assert named in str(caught.value)


def test_a_manifest_that_is_a_directory_or_a_link_is_refused(tmp_path):
    bundle = bundles.copied(bundles.LEARNED, tmp_path)
    manifest = os.path.join(bundle, "manifest.json")
    os.rename(manifest, str(tmp_path / "real.json"))
    os.symlink(str(tmp_path / "real.json"), manifest)
    with pytest.raises(BundleError):
        Bundle.open(bundle)
    os.unlink(manifest)
    os.mkdir(manifest)
    with pytest.raises(BundleError):
        Bundle.open(bundle)


@pytest.mark.parametrize("name", ["prefill.onnx", "decode.onnx", "weights.bin", "tokenizer.json"])
def test_a_missing_short_long_or_linked_file_is_named(tmp_path, name):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    path = os.path.join(bundle, name)
    size = os.path.getsize(path)

    for wrong in (size - 1, size + 1, 0):
        os.truncate(path, wrong)
        with pytest.raises(BundleError) as caught:
            Bundle.open(bundle)
        assert name in str(caught.value)
        assert "%d bytes" % wrong in str(caught.value)
        assert str(size) in str(caught.value)

    os.unlink(path)
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert name in str(caught.value)
    assert "missing" in str(caught.value)

    os.symlink(os.path.join(bundles.ROPE, name), path)
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert "symbolic link" in str(caught.value)

    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert "regular file" in str(caught.value)


def test_a_linked_folder_inside_a_bundle_is_refused(tmp_path):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    os.makedirs(str(tmp_path / "outside"))
    shutil.copy(os.path.join(bundle, "tokenizer.json"), str(tmp_path / "outside" / "t.json"))

    def move(data):
        data["files"]["sub/t.json"] = data["files"].pop("tokenizer.json")
        data["tokenizer"]["file"] = "sub/t.json"

    bundles.edited(bundle, move)
    os.symlink(str(tmp_path / "outside"), os.path.join(bundle, "sub"))
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert "symbolic link" in str(caught.value)


def test_a_changed_byte_opens_and_fails_the_hashes(tmp_path):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    with open(os.path.join(bundle, "weights.bin"), "r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))
    found = Bundle.open(bundle)
    with pytest.raises(BundleError) as caught:
        found.verify_hashes()
    assert "weights.bin" in str(caught.value)
    assert "prefill.onnx" not in str(caught.value)


def test_swapped_graphs_are_refused_even_where_the_manifest_agrees(tmp_path):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    prefill = bundles.content_of(bundle, "prefill.onnx")
    decode = bundles.content_of(bundle, "decode.onnx")
    with open(os.path.join(bundle, "prefill.onnx"), "wb") as file:
        file.write(decode)
    with pytest.raises(BundleError):
        Bundle.open(bundle)
    bundles.replace_file(bundle, "prefill.onnx", decode)
    bundles.replace_file(bundle, "decode.onnx", prefill)
    with pytest.raises(BundleError) as caught:
        open_backend(Bundle.open(bundle))
    assert "not those of the manifest" in str(caught.value)


def test_a_graph_cannot_take_weights_from_outside_the_bundle(tmp_path):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    shutil.copy(os.path.join(bundle, "weights.bin"), str(tmp_path / "ights.bin"))
    graph = bundles.content_of(bundle, "prefill.onnx")
    assert graph.count(b"weights.bin") > 5
    # Of the same length, so that the protobuf stays whole.
    bundles.replace_file(bundle, "prefill.onnx", graph.replace(b"weights.bin", b"../ghts.bin", 1))
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert "../ghts.bin" in str(caught.value)


def test_a_graph_cannot_read_behind_the_end_of_its_weights(tmp_path):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    short = bundles.content_of(bundle, "weights.bin")[:-4096]
    bundles.replace_file(bundle, "weights.bin", short)
    with pytest.raises(BundleError) as caught:
        Bundle.open(bundle)
    assert str(len(short)) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"not a graph", b"\x3a\xff\xff\xff\xff\x0f", b"\x80" * 40]
)
def test_a_graph_that_is_not_onnx_is_refused(tmp_path, content):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    bundles.replace_file(bundle, "prefill.onnx", content)
    with pytest.raises(BundleError) as caught:
        open_backend(Bundle.open(bundle))
    assert "prefill.onnx" in str(caught.value)


def test_a_message_cannot_reach_behind_the_one_that_holds_it(tmp_path):
    path = tmp_path / "graph.onnx"
    path.write_bytes(b"\x3a\x02\x2a\x10" + b"\x08\x01" * 20)  # 16 bytes in a graph of 2
    with pytest.raises(BundleError):
        list(external_data(str(path), "graph.onnx"))
    path.write_bytes(b"\x3a\x12\x2a\x10" + b"\x08\x01" * 20)
    assert list(external_data(str(path), "graph.onnx")) == []


def test_a_graph_cut_anywhere_is_an_error_and_never_a_crash(tmp_path):
    bundle = bundles.copied(bundles.ROPE, tmp_path)
    graph = bundles.content_of(bundle, "prefill.onnx")
    for part in range(1, 20):
        bundles.replace_file(bundle, "prefill.onnx", graph[: part * len(graph) // 20])
        with pytest.raises(EdgeformerError):
            open_backend(Bundle.open(bundle))


def test_the_contract_is_what_the_committed_graphs_declare():
    data = bundles.read_json(bundles.ROPE)
    for kind, entry in data["graphs"].items():
        graph = portable_graph(kind, entry["file"], data["model"])
        declared = [[t["name"], t["dtype"], t["shape"]] for t in entry["inputs"] + entry["outputs"]]
        specs = graph.inputs + graph.outputs
        assert declared == [[s.name, s.dtype, list(s.shape)] for s in specs]
