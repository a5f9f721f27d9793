"""engine.json is read as strictly as a manifest, and only engines of this very bundle count."""

import json
import os

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_json, engine_sets, parse_engine, read_engine_set
from edgeformer.errors import BundleError, EdgeformerError
from tests import bundles

KEY = "0123abcd"
PLAN = b"a plan"


def record(bundle):
    """A record that fits the bundle; tests spoil copies of it."""

    def engine(file, tokens, rows):
        digest = "0" * 64
        sizes = {"bytes": len(PLAN), "tokens": tokens, "rows": rows}
        return dict(sizes, file=file, sha256=digest)

    files = Bundle.open(bundle).manifest.files
    return {
        "format": 1,
        "key": KEY,
        "layout": "split",
        "precision": "fp16",
        "cache_dtype": "float16",
        "past_rows": [64, 128],
        "tensorrt": "8.2.1.8",
        "device": {"name": "NVIDIA Tegra X1", "compute_capability": "5.3"},
        "graphs": {name: files[name].sha256 for name in ("decode.onnx", "weights.bin")},
        "flags": {"workspace": "256 MiB"},
        "engines": {
            "decode": engine("decode.plan", [1, 1], [1, 1]),
            "prefill": engine("prefill.plan", [1, 16], [1, 8]),
        },
        "build": {"seconds": 61.5, "edgeformer": "0.1.0"},
    }


def written(bundle, data, plans=("decode.plan", "prefill.plan")):
    folder = os.path.join(bundle, "engines", KEY)
    os.makedirs(folder)
    for name in plans:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(PLAN)
    with open(os.path.join(folder, "engine.json"), "w") as file:
        json.dump(data, file)
    return Bundle.open(bundle)


@pytest.fixture
def bundle(tmp_path):
    return bundles.copied(bundles.ROPE, tmp_path)


def test_a_set_that_fits_is_read_as_it_was_written(bundle):
    data = record(bundle)
    assert json.loads(engine_json(data)) == data
    found, refused = engine_sets(written(bundle, data))
    assert refused == []
    assert [one.key for one in found] == [KEY]
    assert found[0].engines["prefill"].tokens == (1, 16)
    assert found[0].past_rows == (64, 128)
    assert found[0].build == {"seconds": 61.5, "edgeformer": "0.1.0"}


def test_a_shared_set_has_prefill_alone(bundle):
    data = dict(record(bundle), layout="shared")
    del data["engines"]["decode"]
    parse_engine(data, "engine.json")


def test_folders_without_a_record_are_passed_over(bundle):
    os.makedirs(os.path.join(bundle, "engines", "half-built"))
    assert engine_sets(Bundle.open(bundle)) == ([], [])


def at(*path):
    """An assignment somewhere in the record."""

    def change(data, value):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change, value, match",
    [
        (at("format"), 2, "format 2; this version of edgeformer reads format 1"),
        (at("format"), True, "format true"),
        (at("more"), 1, "unknown key 'more'"),
        (at("key"), "../out", "not a plain file name"),
        (at("layout"), "both", "knows split, shared"),
        (at("layout"), "shared", "a shared set has prefill"),
        (at("precision"), "fp8", "knows fp32, fp16, int8"),
        (at("cache_dtype"), "int8", "knows float32, float16"),
        (at("past_rows"), [], "at least one size"),
        (at("past_rows"), [128, 64], "must ascend"),
        (at("past_rows"), [64, 64], "must ascend"),
        (at("past_rows"), [0], "integer from 1"),
        (at("device"), {"name": "x"}, "lacks the key 'compute_capability'"),
        (at("graphs", "decode.onnx"), "0", "not 64 hexadecimal digits"),
        (at("flags", "workspace"), 256, "not a string"),
        (at("build", "seconds"), None, "must be a number"),
        (at("engines", "decode", "tokens"), [1, 2], "decode takes 2 tokens, it must take 1"),
        (at("engines", "decode", "rows"), [2, 2], "no engine takes one token"),
        (at("engines", "prefill", "tokens"), [16, 1], r"must be \[least, most\]"),
        (at("engines", "prefill", "tokens"), [1], r"must be \[least, most\]"),
        (at("engines", "prefill", "file"), "/etc/passwd", "not a plain file name"),
        (at("engines", "prefill", "bytes"), 0, "integer from 1"),
        (at("engines", "other"), {}, "lacks the key"),
    ],
)
def test_a_record_with_a_wrong_value_is_refused(change, value, match, bundle):
    data = record(bundle)
    change(data, value)
    with pytest.raises(BundleError, match=match):
        parse_engine(data, "engine.json")
    with pytest.raises(BundleError):
        engine_json(data)


@pytest.mark.parametrize(
    "change, value, match",
    [
        (at("graphs", "decode.onnx"), "1" * 64, "another decode.onnx than this bundle holds"),
        (at("graphs", "gone.onnx"), "1" * 64, "another gone.onnx than this bundle holds"),
        (at("key"), "ffff", "has the key 'ffff'"),
        (at("past_rows"), [64], "built for 64 cached rows, the bundle's capacity is 100"),
        (at("engines", "prefill", "tokens"), [1, 8], "takes 8 tokens a step, .* chunk is 16"),
        (at("engines", "prefill", "bytes"), 7, "prefill.plan has 6 bytes, its record says 7"),
    ],
)
def test_a_set_that_is_not_of_this_bundle_counts_for_nothing(change, value, match, bundle):
    data = record(bundle)
    change(data, value)
    opened = written(bundle, data)
    with pytest.raises(BundleError, match=match):
        read_engine_set(opened, KEY)
    found, refused = engine_sets(opened)
    assert (found, len(refused)) == ([], 1)
    assert "python -m edgeformer build" in refused[0] or "lacks" in refused[0]


def test_a_plan_behind_a_symbolic_link_is_refused(bundle):
    data = record(bundle)
    outside = os.path.join(os.path.dirname(bundle), "outside")
    with open(outside, "wb") as file:
        file.write(PLAN)
    opened = written(bundle, data, plans=("decode.plan",))
    os.symlink(outside, os.path.join(bundle, "engines", KEY, "prefill.plan"))
    with pytest.raises(BundleError, match=r"prefill\.plan"):
        read_engine_set(opened, KEY)


def test_without_tensorrt_engines_are_told_of_and_auto_takes_the_cpu(bundle, monkeypatch):
    import sys

    for name in ("tensorrt", "pycuda"):
        monkeypatch.setitem(sys.modules, name, None)
    opened = written(bundle, record(bundle))
    with pytest.raises(EdgeformerError, match=r"pip install pycuda|JetPack"):
        open_backend(opened, "trt")
    with open_backend(opened, "auto") as backend:
        assert backend.name == "ort"
        assert "pycuda cannot be imported" in backend.reason


def test_what_a_builder_has_not_renamed_yet_does_not_count(bundle):
    written(bundle, record(bundle))
    folder = os.path.join(bundle, "engines")
    assert len(engine_sets(Bundle.open(bundle))[0]) == 1
    os.rename(os.path.join(folder, KEY), os.path.join(folder, "." + KEY + ".part-17"))
    assert engine_sets(Bundle.open(bundle)) == ([], [])
