"""docker/run.sh: where files are written, and words that look like something else."""

import os

import pytest

from tests.device import boards
from tests.docker import machines

TINY = "bundles/tiny"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("make", [machines.nano, machines.pc])
def test_a_file_beside_a_bundles_own_can_be_written_and_the_bundle_stays_as_it_is(
    make, first, tmp_path
):
    machine = make(tmp_path)
    tiny = os.path.join(machine.work, TINY)
    told = ["-o", TINY + "/a.prefix"]
    words = ["prefix", *told, TINY, "Hi"] if first else ["prefix", TINY, "Hi", *told]
    started = machine.started(*words)
    mounts = started.mounts()
    assert (mounts["/bundles/tiny"], mounts["/out/tiny"]) == ((tiny, False), (tiny, True))
    assert "/out/tiny/a.prefix" in started.arguments and "/bundles/tiny" in started.arguments
    assert ("/bundles/tiny/engines" in mounts) == (make is machines.nano)


def test_a_folder_that_is_there_is_what_is_written_to_wherever_a_link_leads(tmp_path):
    machine = machines.pc(tmp_path)
    disk = os.path.join(machine.folder, "disk")
    boards.write(disk, "old.json", "{}")
    os.symlink(disk, os.path.join(machine.work, "results"))
    os.symlink(os.path.join(disk, "old.json"), os.path.join(machine.work, "last.json"))
    for asked, told, source in (
        ("results", "/out/disk", disk),
        ("results/", "/out/disk", disk),
        ("results/new.json", "/out/disk/new.json", disk),
        ("last.json", "/out/disk/old.json", disk),
        ("..", "/out/" + os.path.basename(machine.folder), machine.folder),
        (".", "/out/work", machine.work),
    ):
        started = machine.started("bench", TINY, "-o", asked)
        assert started.arguments[2:] == ["-o", told], asked
        assert [m for m in started.mounts().values() if m[1]] == [(source, True)], asked


def test_a_prompt_stays_as_it_was_typed(tmp_path):
    """Also one that begins like an option, or is the name of a bundle."""
    machine = machines.pc(tmp_path)
    boards.write(machine.work, "story/manifest.json", "{}")
    for words in (["--", "-once"], ["--", "--draft", "x"], ["story"], ["x", "--stop", "story"]):
        started = machine.started("generate", TINY, *words)
        assert started.arguments == ["generate", "/bundles/tiny", *words]
        assert list(started.mounts()) == ["/bundles/tiny"]
    words = ["generate", "-n", "2", "--", TINY, "-once"]
    assert machine.started(*words).arguments[-2:] == ["/bundles/tiny", "-once"]
