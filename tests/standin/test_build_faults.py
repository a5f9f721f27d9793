"""Whatever happens to a build: a clear error, no half set, and no wrong engine that counts."""

import hashlib
import json
import os
import random
import resource
import signal
import time

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_sets, plan_path
from tests import bundles
from tests.standin import libraries
from tests.standin.build_verb import FAULTS, Calls, build, leftovers, only_set, started
from tests.standin.conftest import FOLDER, RELEASE

FP32 = ("--precision", "fp32", "--layout", "shared")
# What no release of TensorRT changes is tried with one of them.
once = pytest.mark.skipif(RELEASE != "8.6.1", reason="the same in all releases")


@pytest.fixture
def path(tmp_path):
    return bundles.copied(bundles.ROPE, tmp_path)


def failed(path, *words, **options):
    """The error of a build that must fail and leave nothing."""
    status, err = build(path, *words, **options)
    assert status == 2, err
    bundle = Bundle.open(path)
    assert engine_sets(bundle) == ([], [])
    if os.path.isdir(os.path.join(path, "engines")):
        assert leftovers(path) == []
    error = err[err.index("error: ") :]
    assert "{" not in error or "ForeignNode" in error, "a message with an unfilled place"
    return error


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


# ---- children ----


@once
def test_a_long_build_tells_that_it_goes_on(path, tmp_path, monkeypatch):
    from edgeformer.engines.attempt import run_child

    env = libraries.environment(RELEASE, FOLDER, **{FAULTS: "slow=1.0"})
    for name in env:
        monkeypatch.setenv(name, env[name])
    bundle = Bundle.open(path)
    sizes = {"T": (1, 1, 16), "R": (1, 1, 8), "P": (100, 100, 100)}
    graph = bundle.manifest.graphs["prefill"]
    shapes = {
        spec.name: [
            [sizes[d][i] if isinstance(d, str) else d for d in spec.shape] for i in range(3)
        ]
        for spec in graph.inputs
    }
    job = {
        "do": "build",
        "graph": bundle.file(graph.file),
        "plan": str(tmp_path / "plan"),
        "precision": "fp32",
        "typed": False,
        "shapes": shapes,
        "outputs": [spec.name for spec in graph.outputs],
        "half": [],
        "pinned": "fp32/",
        "workspace": 64,
        "tactics": [],
        "timings": str(tmp_path / "old"),
        "new_timings": str(tmp_path / "new"),
    }
    lines = []
    ended = run_child(job, lines.append, "prefill", every=0.2)
    assert ended.answer["done"]["layers"] > 100
    waiting = [line for line in lines if "building" in line]
    assert len(waiting) >= 4
    assert all("peak" in line for line in waiting[1:])
    assert ended.peak > 5 << 20
    assert 1 <= ended.seconds < 60


def child_of(process):
    """The pid of the process that a build has started, once there is one."""
    name = "/proc/%d/task/%d/children" % (process.pid, process.pid)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with open(name, encoding="ascii") as file:
            found = file.read().split()
        if found:
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no child was started")


def staged(path):
    """Wait until a set is being built."""
    folder = os.path.join(path, "engines")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if os.path.isdir(folder) and any(".part-" in name for name in os.listdir(folder)):
            return
        time.sleep(0.01)
    raise AssertionError("no build began")


@once
def test_the_child_is_the_first_to_be_killed_and_dies_with_its_parent(path):
    process = started(path, *FP32, faults="slow=20")
    staged(path)
    child = child_of(process)
    score = "/proc/%d/oom_score_adj" % child
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with open(score, encoding="ascii") as file:
            if file.read().strip() == "1000":
                break
        time.sleep(0.02)
    else:
        raise AssertionError("oom_score_adj was not raised")
    process.kill()
    process.communicate(timeout=20)
    while time.monotonic() < deadline and os.path.exists("/proc/%d/mem" % child):
        with open("/proc/%d/stat" % child, encoding="ascii", errors="replace") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                break  # dead; whoever took it over has not asked yet
        time.sleep(0.05)
    else:
        assert not os.path.exists("/proc/%d/mem" % child), "the child outlives its parent"


@once
def test_ctrl_c_leaves_nothing(path):
    process = started(path, *FP32, faults="slow=20")
    staged(path)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert leftovers(path) == []


# ---- kills, full disks, two builders ----


def check_whole(path):
    """Whatever counts as a set is complete, to the last byte."""
    bundle = Bundle.open(path)
    usable, refused = engine_sets(bundle)
    assert refused == []
    for engines in usable:
        for engine in engines.engines.values():
            with open(plan_path(bundle, engines, engine), "rb") as file:
                assert hashlib.sha256(file.read()).hexdigest() == engine.sha256
    return usable


@once
def test_kill_at_twenty_random_moments_never_leaves_a_half_set(path):
    began = time.monotonic()
    status, _ = build(path, "--precision", "fp32", faults="slow=0.1")
    whole = time.monotonic() - began
    assert status == 0
    (first,) = check_whole(path)
    chance, interrupted = random.Random(5), 0
    for _ in range(20):
        process = started(path, "--precision", "fp32", "--force", faults="slow=0.1")
        time.sleep(chance.uniform(0, 1.1 * whole))
        interrupted += process.poll() is None
        process.kill()
        process.communicate(timeout=30)
        assert check_whole(path), "a set that was there is lost"
    assert interrupted >= 10
    status, err = build(path, "--precision", "fp32", "--force")
    assert status == 0, err
    assert leftovers(path) == []
    (last,) = check_whole(path)
    assert last.key != first.key
    assert last.key.split(".")[0] == first.key.split(".")[0]


@once
def test_what_a_dead_builder_staged_is_swept_and_never_counts(path):
    assert build(path, *FP32)[0] == 0
    _, engines = only_set(path)
    folder = os.path.join(path, "engines")
    # killed between its last write and the rename: all is there but the name
    os.rename(os.path.join(folder, engines.key), os.path.join(folder, ".x.part-1"))
    assert engine_sets(Bundle.open(path)) == ([], [])
    status, err = build(path, *FP32)
    assert status == 0
    assert "removing engines/.x.part-1: its builder did not finish" in err
    assert leftovers(path) == []
    only_set(path)


@once
def test_a_full_disk_is_told_and_what_was_there_stays(path):
    def full():  # no file can grow beyond this; a plan is larger
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    error = failed(path, *FP32, preexec_fn=full)
    assert "make room on that disk" in error
    assert build(path, *FP32)[0] == 0
    before = check_whole(path)
    status, err = build(path, *FP32, "--force", preexec_fn=full)
    assert status == 2
    assert "make room" in err
    assert check_whole(path) == before
    assert leftovers(path) == []


@once
def test_a_second_builder_waits_and_uses_what_the_first_built(path):
    first = started(path, *FP32, faults="slow=1.5")
    staged(path)
    status, err = build(path, *FP32)
    assert status == 0
    assert "waiting: process %d is building engines of this bundle" % first.pid in err
    assert "are there already" in err
    assert first.communicate(timeout=30)
    assert first.returncode == 0
    only_set(path)


@once
def test_a_second_builder_goes_on_when_the_first_is_killed(path):
    first = started(path, *FP32, faults="slow=20")
    staged(path)
    second = started(path, *FP32)
    time.sleep(1.0)
    first.kill()
    first.communicate(timeout=30)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert b"are there already" not in err
    assert leftovers(path) == []
    only_set(path)


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
