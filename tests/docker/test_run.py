"""docker/run.sh: the image of each release, what the container sees, and what is refused."""

import os

import pytest

from edgeformer.device import files
from tests.device import boards
from tests.docker import machines

TINY = "bundles/tiny"


@pytest.mark.parametrize(
    "make, image",
    [
        (machines.nano, "edgeformer:r32"),
        (lambda folder: machines.nano(folder, "7.6"), "edgeformer:r32"),
        (lambda folder: machines.orin(folder, "35", "4.1"), "edgeformer:r35"),
        (lambda folder: machines.orin(folder, "36", "4.0"), "edgeformer:r36"),
        (lambda folder: machines.orin(folder, "36", "5.0"), "edgeformer:r36"),
        (machines.pc, "edgeformer:pc"),
    ],
)
def test_each_release_gets_its_image_and_the_runtime_of_nvidia_on_boards_alone(
    make, image, tmp_path
):
    started = make(tmp_path).started("generate", TINY, "Hello there")
    assert started.image == image
    assert started.arguments == ["generate", "/bundles/tiny", "Hello there"]
    runtime = started.values.get("--runtime")
    assert runtime == (None if image == "edgeformer:pc" else ["nvidia"])
    assert ("--group-add" in started.values) == (image != "edgeformer:pc")
    assert started.flags == ["--rm", "--init", "--no-healthcheck", "--interactive"]
    assert started.values["--network"] == ["none"]
    assert started.values["--user"] == ["%d:%d" % (os.getuid(), os.getgid())]
    assert "--gpus" not in started.values and "--privileged" not in started.words


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda folder: machines.nano(folder, "6.1"), "R32.6.1 has a TensorRT older than 8.2"),
        (lambda folder: machines.nano(folder, "1.0"), "update the board to R32.7"),
        (lambda folder: machines.orin(folder, "28", "2.0"), "R28.2.0 has a TensorRT older"),
        (lambda folder: machines.orin(folder, "36", "2.0"), "(JetPack 6.0) has the driver"),
        (lambda folder: machines.orin(folder, "36", "3.0"), "update the board to JetPack 6.1"),
        (lambda folder: machines.orin(folder, "39", "2.0"), "no image for L4T R39.2.0"),
        (lambda folder: machines.orin(folder, "34", "1.1"), "no image for L4T R34.1.1"),
        (lambda folder: machines.orin(folder, "?", "1"), "no image for L4T Runknown"),
    ],
)
def test_a_release_without_an_image_is_refused_with_the_reason_and_runs_on_its_cpu(
    make, words, tmp_path
):
    machine = make(tmp_path)
    status, _, errors = machine.run("run.sh", "generate", TINY, "Hello")
    assert (status, words in errors, "--cpu" in errors) == (2, True, True), errors
    assert not machine.calls()
    started = machine.started("--cpu", "generate", TINY, "Hello")
    assert started.image == ("edgeformer:r32" if "error: R32" in errors else "edgeformer:pc")
    assert not {"--runtime", "--group-add"} & set(started.values)


def test_a_bundle_can_be_read_and_its_engines_written(tmp_path):
    machine = machines.nano(tmp_path)
    mounts = machine.started("build", TINY).mounts()
    tiny = os.path.join(machine.work, TINY)
    assert mounts["/bundles/tiny"] == (tiny, False)
    assert mounts["/bundles/tiny/engines"] == (os.path.join(tiny, "engines"), True)
    assert os.path.isdir(os.path.join(tiny, "engines"))


def test_without_a_gpu_nothing_of_a_bundle_can_be_written(tmp_path):
    machine = machines.pc(tmp_path)
    assert list(machine.started("generate", TINY, "Hi").mounts()) == ["/bundles/tiny"]
    assert not os.path.exists(os.path.join(machine.work, TINY, "engines"))


def test_a_bundle_that_takes_no_engines_is_told_of(tmp_path):
    machine = machines.nano(tmp_path)
    boards.write(machine.work, TINY + "/engines", "a file")
    status, _, errors = machine.run("run.sh", "build", TINY)
    assert (status, "tiny/engines, where engines are kept, cannot be made" in errors) == (2, True)


def test_bundles_of_one_name_stay_apart_and_one_that_is_named_twice_is_one(tmp_path):
    machine = machines.pc(tmp_path)
    boards.write(machine.work, "other/tiny/manifest.json", "{}")
    boards.write(machine.work, "third/tiny/manifest.json", "{}")
    os.symlink(os.path.join(machine.work, TINY), os.path.join(machine.work, "link"))
    words = [TINY, "other/tiny/", "link", "bundles/../bundles/tiny", "third/tiny"]
    started = machine.started("bench", *words)
    one, two, three = "/bundles/tiny", "/bundles/tiny-2", "/bundles/tiny-3"
    assert started.arguments == ["bench", one, two, one, one, three]
    assert len(started.mounts()) == 3


def test_the_board_is_told_to_the_container(tmp_path):
    machine = machines.nano(tmp_path)
    mounts = machine.started("doctor").mounts()
    for path in ("etc/nv_tegra_release", "etc/nvpmodel.conf", "var/lib/nvpmodel"):
        assert mounts["/" + path] == (os.path.join(machine.root, path), False)
    assert mounts["/usr/bin/tegrastats"][1] is False
    copy, writable = mounts["/run/edgeformer/device-tree"]
    assert not writable
    assert sorted(os.listdir(copy)) == ["compatible", "model"]
    for name in os.listdir(copy):
        assert files.text(copy, name) == files.text(machine.root, "proc/device-tree", name) != ""
    os.remove(os.path.join(machine.root, "usr/bin/tegrastats"))
    assert "/usr/bin/tegrastats" not in machine.started("doctor").mounts()
    assert "/etc/nv_tegra_release" in machine.started("--cpu", "doctor").mounts()


def test_pycuda_is_kept_from_run_to_run_on_r32_alone(tmp_path):
    cache, writable = machines.nano(tmp_path / "a").started("doctor").mounts()["/cache"]
    assert writable and os.path.isdir(cache) and cache.endswith(".cache/edgeformer/docker/r32")
    assert "/cache" not in machines.nano(tmp_path / "b").started("--cpu", "doctor").mounts()
    assert "/cache" not in machines.orin(tmp_path / "c").started("doctor").mounts()


def test_a_file_that_is_written_lands_beside_the_caller(tmp_path):
    machine = machines.pc(tmp_path)
    os.mkdir(os.path.join(machine.work, "results"))
    results = os.path.join(machine.work, "results")
    for words, told in (
        (["-o", "results/a.json"], ["-o", "/out/results/a.json"]),
        (["--output=results/a.json"], ["--output=/out/results/a.json"]),
        (["-oresults/a.json"], ["-o/out/results/a.json"]),
    ):
        started = machine.started("bench", TINY, *words)
        assert started.arguments == ["bench", "/bundles/tiny", *told]
        assert started.mounts()["/out/results"] == (results, True)
    assert machine.started("bench", TINY, "-o", "a.json").mounts()["/out/work"][0] == machine.work
    status, _, errors = machine.run("run.sh", "bench", TINY, "-o", "absent/a.json")
    assert (status, "mkdir -p absent" in errors) == (2, True)


def test_files_that_options_name_can_be_read(tmp_path):
    machine = machines.pc(tmp_path)
    for name in ("schema.json", "text.txt", "a/saved", "b/saved", "lookup"):
        boards.write(machine.work, name, "x")
    started = machine.started(
        "generate", TINY, "schema.json", "--json-schema", "schema.json", "--prefix=a/saved",
        "--draft", "b/saved",
    )  # fmt: skip
    assert started.arguments[2:] == [
        "schema.json", "--json-schema", "/files/schema.json", "--prefix=/files/saved",
        "--draft", "/files/saved-2",
    ]  # fmt: skip
    assert started.mounts()["/files/saved-2"] == (os.path.join(machine.work, "b/saved"), False)
    for words in (["--draft", "lookup"], ["--draft", "off"], ["--draft=absent"]):
        assert machine.started("generate", TINY, "x", *words).arguments[3:] == words
    drafts = machine.started("generate", TINY, "x", "--draft", TINY)
    assert drafts.arguments[3:] == ["--draft", "/bundles/tiny"]
    twice = machine.started("generate", TINY, "x", "--prefix", "a/saved", "--draft", "a/saved")
    assert twice.arguments[3:] == ["--prefix", "/files/saved", "--draft", "/files/saved"]
    drafter = machine.started("drafter", "-o", "d", TINY, "text.txt")
    assert drafter.arguments == ["drafter", "-o", "/out/work/d", "/bundles/tiny", "/files/text.txt"]


def test_a_chat_saves_into_the_callers_folder(tmp_path):
    machine = machines.pc(tmp_path)
    assert machine.started("chat", TINY).mounts()["/work"] == (machine.work, True)
    assert "/work" not in machine.started("check", TINY).mounts()


@pytest.mark.parametrize("make", [machines.nano, machines.orin, machines.pc])
def test_a_dry_run_prints_the_command_and_does_nothing(make, tmp_path):
    machine = make(tmp_path)
    printed = machine.printed("generate", TINY, 'It\'s a "truth"', "-n", "2")
    assert not os.path.exists(os.path.join(machine.work, TINY, "engines"))
    assert not os.path.exists(os.path.join(machine.folder, "home"))
    started = machine.started("generate", TINY, 'It\'s a "truth"', "-n", "2")
    assert printed.words == started.words
    assert machine.printed("--image", "mine:1", "info", TINY).image == "mine:1"


@pytest.mark.parametrize(
    "state, words",
    [
        ("no image", "no image edgeformer:r32 here: docker/build.sh r32"),
        ("denied", "usermod -aG docker"),
        ("stopped", "systemctl start docker"),
        ("no runtime", "no runtime called nvidia"),
    ],
)
def test_a_docker_that_is_not_ready_is_told_of_with_the_command(state, words, tmp_path):
    machine = machines.nano(tmp_path)
    status, _, errors = machine.run("run.sh", "check", TINY, FAKE_DOCKER=state)
    assert (status, words in errors) == (2, True), errors
    assert not [call for call in machine.calls() if call[0] == "run"]


def test_without_docker_or_with_wrong_words_it_says_what_to_change(tmp_path):
    machine = machines.pc(tmp_path)
    boards.write(machine.work, "a,b/manifest.json", "{}")
    for words, told in (
        (["generate", "bundles", "Hi"], "generate wants a bundle"),
        (["check", "a,b"], "cannot mount"),
        (["--image"], "--image needs a name"),
        (["--gpus", "all"], "no option --gpus before the verb"),
        ([], "usage: docker/run.sh"),
    ):
        status, _, errors = machine.run("run.sh", *words)
        assert (status, told in errors) == (2, True), (words, errors)
    os.remove(os.path.join(machine.folder, "bin/docker"))
    tools = os.path.join(machine.folder, "tools")
    os.mkdir(tools)
    for name in ("tr", "bash"):
        os.symlink("/usr/bin/" + name, os.path.join(tools, name))
    status, _, errors = machine.run("run.sh", "check", TINY, PATH=tools)
    assert (status, "there is no docker" in errors) == (2, True), errors


def test_help_needs_no_bundle_and_the_verbs_exit_status_is_passed_on(tmp_path):
    machine = machines.pc(tmp_path)
    assert machine.started("bench", "--help").arguments == ["bench", "--help"]
    assert machine.run("run.sh", "check", TINY, FAKE_STATUS="1")[0] == 1
    status, output, _ = machine.run("run.sh", "--help")
    assert (status, "--dry-run" in output) == (0, True)
