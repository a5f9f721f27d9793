"""A bundle is whole or absent, whatever stops the export."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.export import export_decoder, publish
from edgeformer.export.publish import published
from tests.nn.choices import choice_decoder

ROOT = Path(__file__).resolve().parents[2]


def published_files(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def write(target, force=False, **files):
    with published(target, force) as folder:
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)


def test_a_new_folder_appears_with_its_parents(tmp_path):
    write(tmp_path / "a/b", manifest_json="1")
    assert published_files(tmp_path / "a/b") == {"manifest.json": "1"}
    assert os.listdir(tmp_path / "a") == ["b"]
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o777 & ~umask, "others may read it"


@pytest.mark.parametrize("umask", (0o022, 0o007))
def test_every_file_of_a_bundle_is_for_whom_the_umask_allows(umask, tmp_path):
    before = os.umask(umask)
    try:
        export_decoder(choice_decoder("gqa"), tmp_path / "b", name="b", chunk=8, target="cpu")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "b").iterdir()}
    assert modes == dict.fromkeys(modes, 0o666 & ~umask)
    assert {"manifest.json", "weights.bin", "step.onnx"} <= set(modes)


def test_nothing_appears_when_the_block_raises(tmp_path):
    for error in (ValueError, KeyboardInterrupt, EdgeformerError):
        with pytest.raises(error), published(tmp_path / "b") as folder:
            (folder / "x").write_text("x")
            raise error
        assert os.listdir(tmp_path) == []


def test_a_bundle_is_replaced_only_with_force_and_whole(tmp_path):
    target = tmp_path / "b"
    write(target, manifest_json="old", gone="x")
    with pytest.raises(EdgeformerError, match="exists; add --force to replace it"):
        write(target, manifest_json="new")
    assert published_files(target) == {"manifest.json": "old", "gone": "x"}
    write(target, force=True, manifest_json="new")
    assert published_files(target) == {"manifest.json": "new"}
    assert os.listdir(tmp_path) == ["b"]


def test_a_file_system_that_cannot_swap_two_names_gets_two_renames(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "EXCHANGE", 1 << 20)  # no such flag: the system refuses
    write(tmp_path / "b", manifest_json="old")
    write(tmp_path / "b", force=True, manifest_json="new")
    assert published_files(tmp_path / "b") == {"manifest.json": "new"}
    assert os.listdir(tmp_path) == ["b"]


def test_the_old_bundle_stays_when_its_replacement_fails(tmp_path):
    target = tmp_path / "b"
    write(target, manifest_json="old")
    with pytest.raises(ValueError, match="half"), published(target, force=True) as folder:
        (folder / "manifest.json").write_text("new")
        raise ValueError("half")
    assert published_files(target) == {"manifest.json": "old"}
    assert os.listdir(tmp_path) == ["b"]


def test_force_never_removes_a_folder_that_is_no_bundle(tmp_path):
    target = tmp_path / "photos"
    target.mkdir()
    (target / "holiday.jpg").write_text("precious")
    for force in (False, True):
        with pytest.raises(EdgeformerError, match=r"is no bundle \(no manifest.json\)"):
            write(target, force=force, manifest_json="1")
    assert published_files(target) == {"holiday.jpg": "precious"}
    (tmp_path / "file").write_text("x")
    with pytest.raises(EdgeformerError, match="exists and is no directory"):
        write(tmp_path / "file", force=True, manifest_json="1")


def test_an_empty_folder_and_a_link_to_a_bundle_are_filled(tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", manifest_json="1")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    write(tmp_path / "link", force=True, manifest_json="2")
    assert (tmp_path / "link").is_symlink()
    assert published_files(tmp_path / "empty") == {"manifest.json": "2"}


def test_what_a_killed_export_left_is_removed_and_a_living_one_is_not(tmp_path):
    dead = tmp_path / ".b.partial-dead"
    dead.mkdir()
    (dead / "weights.bin").write_text("half")
    with published(tmp_path / "b") as living:
        (living / "manifest.json").write_text("first")
        assert not dead.exists()
        write(tmp_path / "b", manifest_json="second")
        assert living.exists()
        with pytest.raises(EdgeformerError, match="exists; add --force"):
            write(tmp_path / "b", manifest_json="third")
        (tmp_path / "b" / "manifest.json").unlink()
        (tmp_path / "b").rmdir()
    assert published_files(tmp_path / "b") == {"manifest.json": "first"}
    assert os.listdir(tmp_path) == ["b"]


def test_a_bundle_that_appears_meanwhile_is_not_overwritten(tmp_path):
    with (
        pytest.raises(EdgeformerError, match="exists; add --force"),
        published(tmp_path / "b") as folder,
    ):
        (folder / "manifest.json").write_text("slow")
        write(tmp_path / "b", manifest_json="fast")
    assert published_files(tmp_path / "b") == {"manifest.json": "fast"}


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(EdgeformerError, match="cannot write"):
        write(tmp_path / "file/b", manifest_json="1")


@pytest.mark.parametrize("limit", (1_000, 60_000))
def test_a_full_disk_leaves_the_old_bundle(limit, tmp_path):
    """A limit on the size of a file gives the same kind of error in the middle of a write."""
    decoder, target = choice_decoder("gqa"), tmp_path / "b"
    export_decoder(decoder, target, name="old", chunk=8, target="cpu")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(EdgeformerError, match=r"no room to write .* nothing was"):
            export_decoder(decoder, target, name="new", chunk=8, target="cpu", force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == ["b"]
    bundle = Bundle.open(str(target))
    bundle.verify_hashes()
    assert bundle.manifest.name == "old"


GENERATIONS = """
import os, sys
from edgeformer.export.publish import published
print("ready", flush=True)
for generation in range(10**6):
    with published(sys.argv[1], force=True) as folder:
        for name in ("a", "b", "c", "manifest.json"):
            (folder / name).write_text(f"{os.getpid()} {generation}")
"""

EXPORTS = """
import sys
import torch
from edgeformer.export import export_decoder
from tests.nn.choices import choice_decoder
torch.set_num_threads(1)
decoder = choice_decoder("gqa")
print("ready", flush=True)
for generation in range(10**6):
    name = f"g{generation}"
    export_decoder(decoder, sys.argv[1], name=name, capacity=12, target="cpu", force=True)
"""


def killed(program, target, seconds):
    """Run the program and kill it this long after it is ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(target)], cwd=ROOT, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL, "it stopped by itself"


def test_kill_9_at_any_moment_leaves_one_whole_generation(tmp_path):
    target, chooser = tmp_path / "b", random.Random(1)
    seen = set()
    for _ in range(12):
        killed(GENERATIONS, target, chooser.uniform(0.01, 0.4))
        if target.exists():
            files = published_files(target)
            assert len(files) == 4
            assert len(set(files.values())) == 1
            seen.update(files.values())
        assert len(os.listdir(tmp_path)) <= 2, "the next run removes what a killed one left"
    assert len(seen) > 3


def test_kill_9_of_an_export_leaves_a_bundle_that_opens(tmp_path):
    target = tmp_path / "b"
    killed(EXPORTS, target, random.uniform(0.5, 1.5))
    if target.exists():
        Bundle.open(str(target)).verify_hashes()
    export_decoder(
        choice_decoder("gqa"), target, name="last", capacity=12, target="cpu", force=True
    )
    assert os.listdir(tmp_path) == ["b"]
