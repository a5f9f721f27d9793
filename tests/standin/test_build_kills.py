"""Builds that are killed, that fill the disk, or that meet another: never a half set."""

import os
import random
import resource
import signal
import time

import pytest

from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_sets
from tests import bundles
from tests.standin import libraries
from tests.standin.build_verb import (
    FAULTS,
    FP32,
    build,
    check_whole,
    failed,
    leftovers,
    only_set,
    started,
)
from tests.standin.conftest import FOLDER, RELEASE

# No release of TensorRT changes any of it, so one of them is enough.
pytestmark = pytest.mark.skipif(RELEASE != "8.6.1", reason="the same in all releases")


@pytest.fixture
def path(tmp_path):
    return bundles.copied(bundles.ROPE, tmp_path)


# ---- children ----


def test_a_long_build_tells_that_it_goes_on(path, tmp_path, monkeypatch):
    from edgeformer.engines.attempt import run_child

    env = libraries.environment(RELEASE, FOLDER, **{FAULTS: "slow=2.0"})
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
    assert 2 <= ended.seconds < 60


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
    while b"building" not in process.stderr.readline():
        pass  # once it computes, no broken pipe ends it
    process.kill()
    process.communicate(timeout=20)
    while time.monotonic() < deadline and os.path.exists("/proc/%d/mem" % child):
        with open("/proc/%d/stat" % child, encoding="ascii", errors="replace") as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                break  # dead; whoever took it over has not asked yet
        time.sleep(0.05)
    else:
        assert not os.path.exists("/proc/%d/mem" % child), "the child outlives its parent"


def test_ctrl_c_leaves_nothing(path):
    process = started(path, *FP32, faults="slow=20")
    staged(path)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert leftovers(path) == []


# ---- kills, full disks, two builders ----


def test_kill_at_twenty_random_moments_never_leaves_a_half_set(path):
    began = time.monotonic()
    status, _ = build(path, "--precision", "fp32", faults="slow=0.1")
    whole = time.monotonic() - began
    assert status == 0
    (first,) = check_whole(path)
    chance, interrupted, tries = random.Random(5), 0, 0
    while interrupted < 20:
        tries += 1
        assert tries < 100
        process = started(path, "--precision", "fp32", "--force", faults="slow=0.1")
        moment = chance.uniform(0, whole)
        time.sleep(moment)
        if process.poll() is None:
            interrupted += 1
        else:
            whole = moment  # builds have become quicker than the first one was
        process.kill()
        process.communicate(timeout=30)
        assert check_whole(path), "a set that was there is lost"
    status, err = build(path, "--precision", "fp32", "--force")
    assert status == 0, err
    assert leftovers(path) == []
    (last,) = check_whole(path)
    assert last.key != first.key
    assert last.key.split(".")[0] == first.key.split(".")[0]


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


def test_a_second_builder_waits_and_uses_what_the_first_built(path):
    first = started(path, *FP32, faults="slow=5")
    staged(path)
    status, err = build(path, *FP32)
    assert status == 0
    assert "waiting: process %d is building engines of this bundle" % first.pid in err
    assert "are there already" in err
    assert first.communicate(timeout=30)
    assert first.returncode == 0
    only_set(path)


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
