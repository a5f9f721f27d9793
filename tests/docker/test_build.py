"""docker/build.sh: which image, built how, and what it wants before it starts."""

import os
import re
import shlex
import shutil

import pytest

from tests.device import boards
from tests.docker import machines
from tests.py36_grammar import ROOT
from tests.setup.machines import executable

WHEEL = "dist/edgeformer-1.0-py3-none-any.whl"


def repository(machine, arch="aarch64"):
    """docker/build.sh in a repository with a wheel, and the machine's own kind of processor."""
    place = os.path.join(machine.folder, "repository")
    boards.write(place, WHEEL, "x")
    os.mkdir(os.path.join(place, "docker"))
    shutil.copy(os.path.join(machines.FOLDER, "build.sh"), os.path.join(place, "docker"))
    executable(os.path.join(machine.folder, "bin"), "uname", "#!/bin/sh\necho %s\n" % arch)
    boards.write(machine.root, "proc/sys/fs/binfmt_misc/qemu-aarch64", "enabled")
    return place, os.path.join(place, "docker/build.sh")


def command(place, kind, *more):
    return ["--file", "%s/docker/Dockerfile.%s" % (place, kind), "--tag", "edgeformer:" + kind] + [
        *more,
        place,
    ]


@pytest.mark.parametrize(
    "make, kind",
    [
        (machines.nano, "r32"),
        (lambda folder: machines.orin(folder, "35", "4.1"), "r35"),
        (machines.orin, "r36"),
    ],
)
def test_a_board_builds_its_own_image_with_any_docker(make, kind, tmp_path):
    machine = make(tmp_path)
    place, script = repository(machine)
    assert machine.run(script)[0] == 0
    assert machine.calls() == [["build", *command(place, kind)]]


def test_the_repository_is_found_whatever_cd_would_find(tmp_path):
    """Under a name with a space, with a CDPATH that `cd` would obey and tell of."""
    machine = machines.pc(tmp_path / "a b")
    place, _ = repository(machine, "x86_64")
    path = os.path.join(place, "go")
    executable(place, "go", 'cd "%s" && bash docker/build.sh --dry-run' % place)
    status, printed, _ = machine.run(path, CDPATH=place)
    assert (status, shlex.split(printed)[2:]) == (0, command(place, "pc"))


def test_a_pc_builds_its_own_image_plainly_and_a_boards_under_qemu(tmp_path):
    machine = machines.pc(tmp_path)
    place, script = repository(machine, "x86_64")
    assert machine.run(script)[0] == 0
    assert machine.calls() == [["build", *command(place, "pc")]]
    arm64 = ["buildx", "build", "--platform", "linux/arm64", "--load"]
    for words, kind in ((["r32"], "r32"), (["r36"], "r36"), (["pc", "--arm64"], "pc")):
        status, _, errors = machine.run(script, *words)
        assert (status, "docker load" in errors) == (0, True)
        assert machine.calls()[-1] == arm64 + command(place, kind)


def test_registry_and_base_go_to_docker(tmp_path):
    machine = machines.pc(tmp_path)
    place, script = repository(machine)
    words = ["r36", "--registry", "mirror.example/nvidia", "--base", "l4t-jetpack:r36.4.0"]
    assert machine.run(script, *words)[0] == 0
    arguments = ["--build-arg", "REGISTRY=mirror.example/nvidia"]
    arguments += ["--build-arg", "BASE=l4t-jetpack:r36.4.0"]
    assert machine.calls() == [["build", *command(place, "r36", *arguments)]]


def test_a_dry_run_prints_the_command_and_wants_neither_docker_nor_a_wheel(tmp_path):
    machine = machines.pc(tmp_path)
    place, script = repository(machine, "x86_64")
    os.remove(os.path.join(place, WHEEL))
    os.remove(os.path.join(machine.folder, "bin/docker"))
    status, output, _ = machine.run(script, "--dry-run", "r32")
    arm64 = ["docker", "buildx", "build", "--platform", "linux/arm64", "--load"]
    assert (status, shlex.split(output)) == (0, arm64 + command(place, "r32"))


@pytest.mark.parametrize(
    "change, words, told",
    [
        (lambda m, place: os.remove(os.path.join(place, WHEEL)), [], "no wheel; make it with"),
        (
            lambda m, place: boards.write(place, WHEEL.replace("1.0", "1.1"), "x"),
            [],
            "2 wheels; make one with: make dist",
        ),
        (lambda m, place: None, ["r39"], "no image and no option r39"),
        (lambda m, place: None, ["r32", "pc"], "one image at a time: r32 or pc"),
        (lambda m, place: None, ["--base"], "--base needs a value"),
        (lambda m, place: None, ["r32", "--base", "x"], "r32 has one base"),
        (lambda m, place: None, ["pc", "--registry", "x"], "--registry and --base are for"),
        (lambda m, place: None, ["r35", "--arm64"], "--arm64 is for pc"),
        (lambda m, place: machines.orin_tree(m, "39"), [], "no image for L4T R39; say which"),
        (
            lambda m, place: os.remove(m.root + "/proc/sys/fs/binfmt_misc/qemu-aarch64"),
            ["r32"],
            "apt-get install qemu-user-static",
        ),
        (lambda m, place: os.remove(m.folder + "/bin/docker"), [], "there is no docker"),
    ],
)
def test_what_is_missing_or_wrong_is_told_with_the_command(change, words, told, tmp_path):
    machine = machines.pc(tmp_path)
    place, script = repository(machine, "x86_64")
    change(machine, place)
    path = os.path.join(machine.folder, "bin")
    for name in ("bash", "dirname", "tr", "sed", "head", "cat"):
        os.symlink(shutil.which(name), os.path.join(path, name))
    status, _, errors = machine.run(script, *words, PATH=path)
    assert (status, told in errors) == (2, True), errors
    assert not [call for call in machine.calls() if "--file" in call]


def test_without_buildx_an_image_for_a_board_is_not_tried_on_a_pc(tmp_path):
    machine = machines.pc(tmp_path)
    _, script = repository(machine, "x86_64")
    status, _, errors = machine.run(script, "r36", FAKE_DOCKER="no buildx")
    assert (status, "docker-buildx" in errors) == (2, True)


def test_every_image_that_the_scripts_speak_of_has_a_dockerfile():
    there = {name.split(".")[1] for name in os.listdir(machines.FOLDER) if name[:6] == "Docker"}
    named = set()
    for name in ("build.sh", "run.sh"):
        with open(os.path.join(ROOT, "docker", name), encoding="ascii") as file:
            named |= set(re.findall(r"\b(?:KIND=|edgeformer:)(r3\d|pc)\b", file.read()))
    assert named and named <= there
