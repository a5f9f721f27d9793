"""Sets of engines on disk: names, locks, what a failing disk leaves."""

import errno
import os
import subprocess
import sys

import pytest

from edgeformer.engines import store
from edgeformer.errors import EdgeformerError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def made(folder, *names):
    for name in names:
        os.mkdir(os.path.join(str(folder), name))


def test_sets_with_one_key_are_numbered_and_the_newest_comes_first(tmp_path):
    assert store.free_key(str(tmp_path), "k") == "k"
    made(tmp_path, "k")
    assert store.free_key(str(tmp_path), "k") == "k.2"
    made(tmp_path, "k.2", "k.10", "kk", "k.x", ".k.part-1", "k.2.3")
    assert store.same_key(str(tmp_path), "k") == ["k.10", "k.2", "k"]
    assert store.free_key(str(tmp_path), "k") == "k.11"


def test_a_key_is_a_name_and_no_pattern(tmp_path):
    made(tmp_path, "a-b", "axb")
    assert store.same_key(str(tmp_path), "a.b") == []


def test_only_what_builders_staged_is_swept(tmp_path):
    made(tmp_path, ".k.part-12", ".k.part-x", "k.part-12", ".other")
    (tmp_path / ".k.part-12" / "engine.json").write_bytes(b"")
    said = []
    store.sweep(str(tmp_path), said.append)
    assert sorted(os.listdir(str(tmp_path))) == [".k.part-x", ".other", "k.part-12"]
    assert said == ["removing engines/.k.part-12: its builder did not finish"]


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_disk_that_fails_at_the_end_leaves_no_set(call, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    folder = str(tmp_path)
    told = pytest.raises(EdgeformerError, match="No space left on device; make room")
    with told, store.staging(folder, "k") as staged:
        with open(os.path.join(staged, "prefill.plan"), "wb") as file:
            file.write(b"plan")
        monkeypatch.setattr(os, call, full)
        store.publish(staged, folder, "k", "{}")
    assert os.listdir(folder) == []


def test_a_set_is_published_whole_with_its_record_last(tmp_path, monkeypatch):
    folder, order = str(tmp_path), []
    real = os.rename

    def rename(source, target):
        order.append(sorted(os.listdir(source)))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with store.staging(folder, "k") as staged:
        with open(os.path.join(staged, "prefill.plan"), "wb") as file:
            file.write(b"plan")
        assert os.listdir(folder) == [".k.part-%d" % os.getpid()]
        store.publish(staged, folder, "k", "{}")
    assert order == [["engine.json", "prefill.plan"]]
    assert os.listdir(folder) == ["k"]


def test_the_lock_is_free_again_when_its_holder_is_killed(tmp_path):
    code = (
        "import os, signal, sys; sys.path.insert(0, %r)\n"
        "from edgeformer.engines import store\n"
        "with store.only_builder(%r, print):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)" % (ROOT, str(tmp_path))
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    said = []
    with store.only_builder(str(tmp_path), said.append):
        assert said == []
        assert (tmp_path / ".lock").read_text() == "%d\n" % os.getpid()


def test_a_link_in_place_of_the_lock_is_refused(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    os.symlink(str(victim), str(tmp_path / ".lock"))
    told = pytest.raises(EdgeformerError, match="check who may write there")
    with told, store.only_builder(str(tmp_path), print):
        raise AssertionError("a foreign file became a lock")
    assert victim.read_text() == "kept"
