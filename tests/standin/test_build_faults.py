"""Builds that cannot be, that fail and say why, and sets that must not be used."""

import json
import os

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_sets, plan_path
from tests import bundles
from tests.standin.build_verb import FP32, Calls, build, check_whole, failed, only_set
from tests.standin.conftest import RELEASE

# What no release of TensorRT changes is tried with one of them.
once = pytest.mark.skipif(RELEASE != "8.6.1", reason="the same in all releases")


@pytest.fixture
def path(tmp_path):
    return bundles.copied(bundles.ROPE, tmp_path)


# ---- machines that cannot build ----


@once
@pytest.mark.parametrize(
    ("without", "told"),
    [
        (("driver", "tensorrt", "pycuda"), ["no CUDA driver", "no tensorrt", "no pycuda"]),
        (("tensorrt",), ["has no tensorrt."]),
        (("pycuda",), ["has no pycuda."]),
        (("driver",), ["CUDA driver"]),
    ],
)
def test_a_machine_that_lacks_something_gets_one_paragraph(without, told, path):
    error = failed(path, without=without)
    assert error.count("\n") == 1
    for words in told:
        assert words in error
    assert "--backend ort" in error
    assert not os.path.exists(os.path.join(path, "engines"))


def test_a_driver_without_a_gpu_is_told(path, monkeypatch):
    monkeypatch.setenv("EDGEFORMER_STANDIN_GPU", "absent")
    assert "no CUDA GPU" in failed(path)


@pytest.mark.parametrize(("gpu", "told"), [("53", "Jetson Nano's GPU"), ("87", "int8-qdq graphs")])
def test_int8_is_refused_with_the_reason(gpu, told, path, monkeypatch):
    monkeypatch.setenv("EDGEFORMER_STANDIN_GPU", gpu)
    error = failed(path, "--precision", "int8", faults="int8=1")
    assert told in error
    assert "fp16" in error
    if gpu == "53":  # forced, the next reason comes: these graphs are not quantized
        assert "int8-qdq graphs" in failed(path, "--precision", "int8", "--force")


# ---- the ladder of workspaces ----


@pytest.mark.parametrize(
    ("faults", "workspace", "told"),
    [
        ("needs=300", 512, "no kernel fits in it; next 512 MiB"),
        ("most=100", 64, "memory ran out; next 128 MiB"),
        ("kill=100", 64, "the builder was killed; next 64 MiB"),
    ],
)
def test_the_next_workspace_is_tried(faults, workspace, told, path):
    status, err = build(path, *FP32, faults=faults)
    assert status == 0, err
    assert told in err
    bundle, engines = only_set(path)
    assert Calls(bundle, engines, "prefill").workspace == workspace
    assert engines.flags["prefill_workspace_mib"] == str(workspace)


@pytest.mark.parametrize(
    ("faults", "told"),
    [
        ("needs=2000", ["no kernel for {ForeignNode[", "256, 512 MiB", "--workspace 1024"]),
        ("most=10", ["GPU memory ran out", "(538MB asked for, 166MB free)", "256, 128, 64 MiB"]),
        ("kill=10", ["killed (signal 9)", "4000 MiB free before", "swap"]),
        ("crash=1", ["crashed (SIGSEGV)", "--layout shared"]),
        ("unsupported=Softmax", ["Softmax node 'fp32/blocks.0/attention/Softmax'", "export lint"]),
        (
            "complain=Networks_with_QuantizeLayer/DequantizeLayer_layers_require_hardware_with_Int8",
            ["this GPU has no INT8", "--precision fp16"],
        ),
        ("complain=The_library_Version_mismatch", ["different versions", "one release"]),
        ("complain=Something_new", ["Something new", "the last that TensorRT said"]),
    ],
)
def test_a_failure_is_explained_with_the_last_lines(faults, told, path):
    error = failed(path, *FP32, faults=faults)
    for words in told:
        assert words in error
    if "complain" in faults or "needs" in faults:
        assert "the last that TensorRT said:\n  " in error


def test_a_workspace_that_was_asked_for_is_the_only_one(path):
    error = failed(path, *FP32, "--workspace", "100", faults="needs=200")
    assert "in workspaces of 100 MiB" in error


# ---- sets that must not be used ----


def damaged(path, how):
    """Spoil the one set of a bundle."""
    bundle, engines = only_set(path)
    plan = plan_path(bundle, engines, engines.engines["prefill"])
    record = os.path.join(os.path.dirname(plan), "engine.json")
    with open(plan, "rb") as file:
        content = file.read()
    with open(record, encoding="ascii") as file:
        data = json.load(file)
    if how == "truncated":
        content = content[:-7]
    elif how == "a changed byte":
        content = content[:-7] + b"x" + content[-6:]
    elif how == "another TensorRT":
        data["tensorrt"] = "8.0.1"
    elif how == "another GPU":
        data["device"]["compute_capability"] = "8.7"
    with open(plan, "wb") as file:
        file.write(content)
    with open(record, "w", encoding="ascii") as file:
        json.dump(data, file)
    return engines.key


@once
@pytest.mark.parametrize("how", ["truncated", "a changed byte"])
def test_a_damaged_set_is_built_again(how, path):
    assert build(path, *FP32)[0] == 0
    key = damaged(path, how)
    status, err = build(path, *FP32)
    assert status == 0
    assert "not used: engines/%s/prefill.plan" % key in err
    assert only_set(path)[1].key == key + ".2"
    check_whole(path)


@once
@pytest.mark.parametrize("how", ["another TensorRT", "another GPU"])
def test_a_foreign_set_is_reported_and_removed_only_on_request(how, path):
    assert build(path, *FP32)[0] == 0
    key = damaged(path, how)
    folder = os.path.join(path, "engines")
    other = key[:-1] + ("0" if key[-1] != "0" else "1")  # it would have another key, too
    os.rename(os.path.join(folder, key), os.path.join(folder, other))
    record = os.path.join(folder, other, "engine.json")
    with open(record, encoding="ascii") as file:
        data = dict(json.load(file), key=other)
    with open(record, "w", encoding="ascii") as file:
        json.dump(data, file)
    status, err = build(path, *FP32)
    assert status == 0
    assert "not used here: engines/%s was built by TensorRT" % other in err
    assert os.path.isdir(os.path.join(folder, other))
    status, err = build(path, *FP32, "--prune")
    assert status == 0
    assert "removed: engines/%s" % other in err
    assert only_set(path)[1].key == key


@once
def test_engines_of_an_older_export_are_not_used(path):
    assert build(path, *FP32)[0] == 0
    old = only_set(path)[1].key
    more = bundles.content_of(path, "prefill.onnx") + b"\x32\x01x"  # ModelProto.doc_string
    bundles.replace_file(path, "prefill.onnx", more)
    status, err = build(path, *FP32)
    assert status == 0
    assert "not used here: engines/%s/engine.json was built from another prefill.onnx" % old in err
    usable, refused = engine_sets(Bundle.open(path))
    assert [old not in entry.key for entry in usable] == [True]
    assert len(refused) == 1


@once
def test_weights_that_are_not_the_exporters_are_not_built(path):
    content = bytearray(bundles.content_of(path, "weights.bin"))
    content[100] ^= 1
    with open(os.path.join(path, "weights.bin"), "wb") as file:
        file.write(content)
    assert "weights.bin has sha256" in failed(path, *FP32)


@once
def test_what_does_not_fit_is_refused_before_anything_is_built_unless_forced(path):
    error = failed(path, *FP32, "--memory", "300")
    assert "MiB to run (predicted) and 300 MiB are free" in error
    assert "--force" in error
    status, err = build(path, *FP32, "--memory", "300", "--force")
    assert status == 0
    assert "forced: layout shared needs" in err


@once
def test_force_builds_again_under_a_new_name_and_removes_the_old(path):
    keys = []
    for words in ((), ("--force",), ("--force",), ()):
        assert build(path, *FP32, *words)[0] == 0
        keys.append(only_set(path)[1].key)
    assert keys == [keys[0], keys[0] + ".2", keys[0] + ".3", keys[0] + ".3"]
