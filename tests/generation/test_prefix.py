"""Computed prefixes in files: they give the same bits, and to their own bundle only."""

import errno
import json
import os
import struct

import numpy as np
import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError
from edgeformer.generation.prefix import digest
from tests import bundles
from tests.generation.test_cache import PROMPT, Watched
from tests.generation.test_conversation import bundle_of

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
PATHS = [bundles.ROPE, bundles.HALF, bundles.INT8] + [bundles.FUSED] * FUSED_RUNS


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A prefix of 30 tokens of tiny-rope."""
    path = str(tmp_path_factory.mktemp("prefix") / "rows")
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        model.save_prefix(path, PROMPT[:30])
    return path


def parts(path):
    with open(path, "rb") as opened:
        content = opened.read()
    size = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:size].decode("ascii")), content[size:]


def write(path, header, raw):
    text = json.dumps(header).encode("ascii")
    with open(str(path), "wb") as opened:
        opened.write(struct.pack("<Q", len(text)) + text + raw)
    return str(path)


@pytest.mark.parametrize("bundle", PATHS, ids=os.path.basename)
def test_a_loaded_prefix_computes_the_rest_only_and_the_same_bits(tmp_path, bundle):
    path = str(tmp_path / "rows")
    with edgeformer.load(bundle, threads=1) as model:
        model._eos_ids = frozenset()
        saved = model.save_prefix(path, PROMPT[:32])
        assert saved.ids == tuple(PROMPT[:32])
        wanted = model.generate(PROMPT, max_new_tokens=8, reuse=False).tokens
        rows = model.backend.read_rows(0, 40).values
    assert os.listdir(str(tmp_path)) == ["rows"]
    with edgeformer.load(bundle, threads=1) as model:
        model._eos_ids = frozenset()
        assert model.load_prefix(path) == saved
        watched = Watched(model)
        whole = model.generate(PROMPT, max_new_tokens=8)
        assert watched.steps[0] == (PROMPT[32:], list(range(32, 40)))
        assert whole.tokens == wanted
        assert whole.stats.reused_tokens == 32
        assert (model.backend.read_rows(0, 40).values == rows).all()
        assert watched.fed(PROMPT[:32] + [1]) == [32]  # the prefix is still there
        assert watched.fed([1, 2]) == [0, 1]
        assert watched.fed(PROMPT[:20]) == list(range(20))  # and now it is not


def test_half_precision_rows_take_half_the_bytes(tmp_path):
    sizes = {}
    for name, bundle in (("float", bundles.ROPE), ("half", bundles.HALF)):
        with edgeformer.load(bundle, threads=1) as model:
            model.save_prefix(str(tmp_path / name), PROMPT)
        header, raw = parts(str(tmp_path / name))
        sizes[name] = len(raw)
        assert header["rows"]["shape"] == [4, 40, 16]
    assert sizes == {"float": 160 + 4 * 4 * 40 * 16, "half": 160 + 2 * 4 * 40 * 16}


def test_a_text_and_a_chat_are_saved_up_to_what_comes_next(tmp_path):
    path = str(tmp_path / "rows")
    with edgeformer.load(bundle_of(tmp_path), threads=1) as model:
        model._eos_ids = frozenset()
        assert model.save_prefix(path, "the").ids == tuple(model.tokenizer.encode("the"))
        told = [{"role": "system", "content": "be"}]
        saved = model.save_prefix(path, messages=told)
        assert model.tokenizer.decode(saved.ids) == "sbe|u"
        found = model.load_prefix(path)
        assert found == saved
        assert found.messages == told
        answer = model.chat(messages=found.messages).send("hi", max_new_tokens=1)
        list(answer)
        assert answer.stats.reused_tokens == 5
        for wrong in ({}, {"prompt": "a", "messages": told}):
            with pytest.raises(EdgeformerError, match="one of the two"):
                model.save_prefix(path, **wrong)
        with pytest.raises(EdgeformerError, match="40 tokens, the bundle's capacity is 32"):
            model.save_prefix(path, "x" * 40)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.999])
def test_a_truncated_file_is_refused(tmp_path, file, share):
    with open(file, "rb") as opened:
        content = opened.read()
    path = str(tmp_path / "cut")
    with open(path, "wb") as opened:
        opened.write(content[: int(share * len(content))])
    refused(path, "cannot be loaded")


def test_every_flipped_byte_is_found(tmp_path, file):
    with open(file, "rb") as opened:
        content = bytearray(opened.read())
    path = str(tmp_path / "flipped")
    random = np.random.RandomState(1)
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        model.generate(PROMPT, max_new_tokens=1)
        places = [*range(0, 900, 9), *random.randint(900, len(content), 40)]
        for place in places:
            content[place] ^= 0x15
            with open(path, "wb") as opened:
                opened.write(content)
            content[place] ^= 0x15
            with pytest.raises(EdgeformerError):
                model.load_prefix(path)
            assert model.cached_ids == PROMPT  # nothing was changed


def refused(path, named, bundle=bundles.ROPE):
    with edgeformer.load(bundle, threads=1) as model:
        with pytest.raises(EdgeformerError) as caught:
            model.load_prefix(path)
        assert named in str(caught.value)
        assert path in str(caught.value)
        assert model.backend.cached == 0


@pytest.mark.parametrize(
    "change, named",
    [
        (lambda h: h["__metadata__"].update(kind="other"), "edgeformer prefix 1"),
        (lambda h: h["__metadata__"].update(bundle="0" * 64), "its bundle is '0000"),
        (lambda h: h["__metadata__"].update(dialect="ort"), "its dialect is 'ort'"),
        (lambda h: h["__metadata__"].update(precision="fp16"), "its precision is 'fp16'"),
        (lambda h: h["__metadata__"].update(backend="trt"), "its backend is 'trt'"),
        (lambda h: h["__metadata__"].update(more="x"), "must say"),
        (lambda h: h["__metadata__"].update(sha256=7), "must say"),
        (lambda h: h["__metadata__"].update(messages="{"), "not JSON"),
        (lambda h: h["__metadata__"].update(messages="[3]"), "message 0"),
        (lambda h: h["__metadata__"].update(sha256="0" * 64), "another sha256"),
        (lambda h: h.update(more={}), "must hold"),
        (lambda h: h["ids"].update(shape=[29]), "tensors are not"),
        (lambda h: h["ids"].update(dtype="F32"), "tensors are not"),
        (lambda h: h["rows"].update(dtype="F16"), "speaks of"),
        (lambda h: h["rows"].update(shape=[2, 30, 32]), "rows are [2, 30, 32], not [4, 30, 16]"),
        (lambda h: h["rows"].update(shape=[2**30, 30, 2**30]), "speaks of"),
        (lambda h: h["rows"].update(data_offsets=[0, 10]), "speaks of"),
        (lambda h: h["rows"].update(shape=[True, 30, 16]), "speaks of"),
    ],
)
def test_a_header_that_is_not_ours_is_refused(tmp_path, file, change, named):
    header, raw = parts(file)
    change(header)
    about = header["__metadata__"]
    if about["sha256"] not in (7, "0" * 64):
        about["sha256"] = digest(about, [raw])
    refused(write(tmp_path / "edited", header, raw), named)


def test_bytes_behind_the_tensors_are_refused(tmp_path, file):
    header, raw = parts(file)
    about = header["__metadata__"]
    for more in (raw + b"\0" * 4, raw[:-4]):
        about["sha256"] = digest(about, [more])
        refused(write(tmp_path / "more", header, more), "its header speaks of %d" % len(raw))


def test_other_messages_are_another_file(tmp_path, file):
    header, raw = parts(file)
    told = [{"role": "system", "content": "lie"}]
    header["__metadata__"]["messages"] = json.dumps(told)
    refused(write(tmp_path / "other", header, raw), "another sha256")


@pytest.mark.parametrize("fill", ["ids", "nan"])
def test_bytes_that_fit_their_hash_and_are_garbage_are_refused(tmp_path, file, fill):
    header, raw = parts(file)
    wrong = bytearray(raw)
    if fill == "ids":
        wrong[0:4] = struct.pack("<i", 280)
    else:
        wrong[-4:] = struct.pack("<f", float("nan"))
    header["__metadata__"]["sha256"] = digest(header["__metadata__"], [bytes(wrong)])
    path = write(tmp_path / "garbage", header, bytes(wrong))
    refused(path, "outside 0 to 279" if fill == "ids" else "no numbers")


def test_another_bundle_and_what_is_no_prefix_are_refused(tmp_path, file):
    refused(file, "its bundle is", bundles.LEARNED)
    refused(file, "its bundle is", bundles.HALF)
    for path in (str(tmp_path), str(tmp_path / "none")):
        refused(path, "cannot be read")
    refused(os.path.join(bundles.ROPE, "weights.bin"), "no prefix")
    refused(os.path.join(bundles.ROPE, "manifest.json"), "no prefix")
    path = str(tmp_path / "large")
    with open(path, "wb") as opened:
        opened.write(struct.pack("<Q", 2**63) + b"{}")
    refused(path, "no header")


def test_a_chat_template_may_change_and_a_weight_may_not(tmp_path, file):
    path = bundles.copied(bundles.ROPE, tmp_path)
    bundles.edited(path, lambda data: data.update(chat_templates={"default": "chat.jinja"}))
    bundles.replace_file(path, "chat.jinja", b"{{ messages }}")
    with edgeformer.load(path, threads=1) as model:
        assert model.load_prefix(file).ids == tuple(PROMPT[:30])
    weights = bytearray(bundles.content_of(path, "weights.bin"))
    weights[0] ^= 1
    bundles.replace_file(path, "weights.bin", bytes(weights))
    refused(file, "its bundle is", path)


def test_a_prefix_ends_the_stream_that_is_open(tmp_path, file):
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        for act in (
            lambda: model.load_prefix(file),
            lambda: model.save_prefix(str(tmp_path / "rows"), PROMPT),
        ):
            stream = model.stream(PROMPT)
            next(stream)
            act()
            with pytest.raises(EdgeformerError, match="taken its cache"):
                next(stream)


def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path, file, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "rows"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    model = edgeformer.load(bundles.ROPE, threads=1)
    with model, pytest.raises(EdgeformerError, match="No space left"):
        model.save_prefix(str(path), PROMPT)
    assert os.listdir(str(tmp_path)) == ["rows"]
    assert path.read_bytes() == b"old"


def test_what_was_there_stays_where_a_file_cannot_be_written(tmp_path):
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        for path in (str(tmp_path), str(tmp_path / "no" / "rows")):
            with pytest.raises(EdgeformerError, match="directory"):
                model.save_prefix(path, PROMPT)
    assert os.listdir(str(tmp_path)) == []
