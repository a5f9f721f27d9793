"""jetson_setup.sh: what it finds missing, what it does, and that it ends in one state."""

import os
import pty
import re
import subprocess

import pytest

from edgeformer.device.doctor.pins import KITS
from tests.device import boards
from tests.setup import machines

BOARDS = {
    "nano": (machines.nano, "r32"),
    "nano-2gb": (machines.nano_2gb, "r32"),
    "orin-r35": (machines.orin_r35, "r35"),
    "orin-r36": (machines.orin_r36, "r36"),
    "orin-r39": (machines.orin_r39, None),
    "unknown": (machines.unknown_board, None),
}
# One always, the others in `make test-all`.
NAMES = [
    name if name == "nano" else pytest.param(name, marks=pytest.mark.slow)
    for name in sorted(BOARDS)
]
STEPS = "swap zram headless power clocks apt paths venv coretype pip packages pycuda edgeformer"


def missing(output):
    return [line.split()[1] for line in output.splitlines() if line.startswith("missing ")]


def kit_named(name):
    return next((kit for kit in KITS if kit.name == name), None)


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_board_is_set_up_once_and_then_nothing_is_missing(name, tmp_path):
    make, kit_name = BOARDS[name]
    kit, board = kit_named(kit_name), make(tmp_path)
    status, output = board.run("--yes")
    assert status == 0, output
    frozen = board.state()["venv/freeze"].decode("ascii").split()
    if kit:
        pins = {**kit.packages, **kit.build, **kit.pycuda, "pip": kit.pip, "edgeformer": "0.1.0"}
        wanted = ["%s==%s" % (n.lower().replace("_", "-"), v) for n, v in pins.items()]
        assert sorted(frozen) == sorted(wanted)
    else:
        assert "in no table of edgeformer" in output
        assert not [line for line in frozen if line.startswith("pycuda")]
        assert [line for line in frozen if line.startswith("numpy")]
    before, log = board.state(), os.path.getsize(board.path("edgeformer-setup.log"))
    assert board.run("--check")[0] == 0
    status, output = board.run("--yes")
    assert (status, missing(output), "Nothing is missing" in output) == (0, [], True)
    assert board.state() == before
    assert os.path.getsize(board.path("edgeformer-setup.log")) > log
    assert not board.called("apt-get") + board.called("nvpmodel") + board.called("mv")


@pytest.mark.parametrize("option", ["--dry-run", "--check"])
@pytest.mark.parametrize("name", NAMES)
def test_looking_changes_nothing_and_tells_every_step_that_is_missing(name, option, tmp_path):
    make, kit_name = BOARDS[name]
    board = make(tmp_path)
    before = board.state()
    status, output = board.run(option)
    assert status == (option == "--check")
    assert board.state() == before
    assert not os.path.exists(board.path("edgeformer-setup.log"))
    wanted = set(STEPS.split())
    wanted -= set() if kit_name == "r32" else {"coretype"}
    wanted -= {"swap", "zram"} if not name.startswith("nano") else set()
    wanted -= set() if kit_name else {"pip", "pycuda"}
    wanted -= {"power"} if name == "unknown" else set()
    assert set(missing(output)) == wanted


def test_on_a_nano_the_plan_has_every_command_and_says_why(tmp_path):
    _, output = machines.nano(tmp_path).run("--dry-run")
    assert "NVIDIA Jetson Nano Developer Kit, L4T R32.7.4, 3956 MB" in output
    assert "about 2806 MB are left for a model" in output
    for words in (
        "fallocate -l 4096M",
        "systemctl disable nvzramconfig",
        "systemctl set-default multi-user.target",
        "nvpmodel -m 0",
        "jetson_clocks",
        "python3-venv python3-dev build-essential python3-libnvinfer",
        "venv --system-site-packages",
        "edgeformer-openblas.pth",
        "pip install pip==21.3.1",
        "numpy==1.19.4",
        "onnxruntime==1.10.0",
        "tokenizers==0.12.1",
        "pycuda==2021.1",
        "illegal instruction",
    ):
        assert words in output, words


def test_a_pc_is_told_what_would_happen_on_a_board_and_is_left_alone(tmp_path):
    board = machines.pc(tmp_path)
    before = board.state()
    status, output = board.run("--dry-run")
    assert (status, "This is no Jetson (x86_64)" in output) == (0, True)
    assert missing(output) == STEPS.split()
    status, output = board.run("--yes")
    assert (status, "nothing was done" in output) == (2, True)
    assert board.state() == before


@pytest.mark.slow
def test_the_power_mode_is_found_by_name(tmp_path):
    board = machines.orin_r36(tmp_path)
    board.run("--yes")
    assert board.called("nvpmodel") == ["nvpmodel -m 2"]  # MAXN_SUPER; -m 0 is 15W there
    boards.write(board.root, "etc/nvpmodel.conf", boards.ORIN_CONF.replace("MAXN_SUPER", "40W"))
    boards.write(board.root, "var/lib/nvpmodel/status", "pmode:0003\n")
    board.run("--yes")
    assert board.called("nvpmodel") == ["nvpmodel -m 2"]


@pytest.mark.slow
def test_no_power_leaves_mode_and_clocks_alone(tmp_path):
    board = machines.nano(tmp_path)
    assert board.run("--yes", "--no-power")[0] == 0
    assert not board.called("nvpmodel") + board.called("jetson_clocks")
    assert board.run("--check", "--no-power")[0] == 0
    assert missing(board.run("--check")[1]) == ["power", "clocks"]


@pytest.mark.slow
def test_in_a_container_only_the_container_is_set_up(tmp_path):
    board = machines.nano(tmp_path)
    boards.write(board.root, ".dockerenv", "")
    status, output = board.run("--yes")
    assert status == 0, output
    names = {call.split()[0] for call in board.calls()}
    assert not names & {"systemctl", "fallocate", "nvpmodel", "jetson_clocks"}
    assert "python3-libnvinfer" not in board.called("apt-get")[-1]


@pytest.mark.slow
def test_a_card_without_cuda_gets_it_from_apt_and_pycuda_in_the_same_run(tmp_path):
    board = machines.nano(tmp_path)
    os.remove(os.path.join(board.root, "usr/local/cuda/bin/nvcc"))
    os.removedirs(os.path.join(board.root, "usr/local/cuda/bin"))
    assert board.run("--yes")[0] == 0
    assert "nvidia-jetpack" in board.called("apt-get")[-1]
    assert [call for call in board.called("python") if "pycuda==2021.1" in call]
    assert board.run("--check")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("size, asked", [("0", None), ("512M", "512M"), ("6G", "6144M")])
def test_swap_has_the_size_that_was_asked_for(size, asked, tmp_path):
    board = machines.nano(tmp_path)
    board.run("--yes", "--swap", size)
    calls = [call.split()[2] for call in board.called("fallocate")]
    assert calls == ([asked] if asked else [])
    assert board.run("--check", "--swap", size)[0] == 0


@pytest.mark.slow
def test_swap_of_the_users_own_is_left_alone(tmp_path):
    board = machines.nano(tmp_path)
    boards.write(board.root, "proc/swaps", "Filename\n/mnt/swap file 4194300 0 -2\n")
    board.run("--yes")
    assert not board.called("fallocate") + board.called("swapon")


def test_a_file_of_the_system_is_kept_before_it_is_changed(tmp_path):
    board = machines.nano(tmp_path)
    before = board.state()["root/etc/fstab"]
    boards.write(board.root, "etc/profile.d/edgeformer-cuda.sh", "mine\n")
    board.run("--yes")
    after = board.state()
    assert after["root/etc/fstab.edgeformer-backup"] == before
    assert after["root/etc/fstab"] == before + b"/swapfile.edgeformer none swap sw 0 0\n"
    assert after["root/etc/profile.d/edgeformer-cuda.sh.edgeformer-backup"] == b"mine\n"
    boards.write(board.root, "etc/profile.d/edgeformer-cuda.sh", "again\n")
    board.run("--yes")
    kept = board.state()["root/etc/profile.d/edgeformer-cuda.sh.edgeformer-backup"]
    assert kept == b"mine\n", "the first backup is the original"


def test_pip_and_pycuda_are_called_as_the_traps_demand(tmp_path):
    board = machines.nano(tmp_path)
    assert board.run("--yes", "--swap", "0", "--no-power")[0] == 0
    pip = [call for call in board.called("python") if " install " in call]
    numbered = {name: n for n, call in enumerate(pip) for name in re.findall(r"([\w.]+)==", call)}
    assert numbered["pip"] < numbered["numpy"] < numbered["onnxruntime"] < numbered["pycuda"]
    for call in pip[1:]:
        assert "--no-deps" in call
        assert ("--only-binary=:all:" in call) != (
            "pycuda" in call or board.folder in call or machines.ROOT in call
        ), call
    (pycuda,) = [call for call in pip if "pycuda==" in call]
    assert "--no-build-isolation" in pycuda
    with open(board.path("environment"), encoding="ascii") as file:
        lines = set(file.read().splitlines())
    assert lines == {"cpath %s/usr/local/cuda/include core ARMV8" % board.root}
    pth = board.state()["venv/lib/python3.6/site-packages/edgeformer-openblas.pth"]
    assert b'setdefault("OPENBLAS_CORETYPE", "ARMV8")' in pth


@pytest.mark.slow
def test_without_a_network_it_says_so_and_how_to_do_without(tmp_path):
    board = machines.nano(tmp_path)
    status, output = board.run("--yes", FAKE_OFFLINE="1")
    assert (status, "--make-offline" in output) == (2, True)
    boards.write(
        board.root, "packages", "python3-venv\npython3-dev\nbuild-essential\npython3-libnvinfer\n"
    )
    status, output = board.run("--yes", FAKE_OFFLINE="1")
    assert (status, "no network? On a PC" in output) == (2, True)
    wheels = tmp_path / "wheels"
    boards.write(wheels, "r32/edgeformer-0.1.0-py3-none-any.whl", "")
    status, output = board.run("--yes", "--offline", str(wheels), FAKE_OFFLINE="1")
    assert status == 0, output
    assert all(
        "--find-links %s/r32" % wheels in c for c in board.called("python") if "install" in c
    )
    assert board.run("--check", "--offline", str(wheels))[0] == 0


def test_offline_what_only_apt_has_is_named(tmp_path):
    status, output = machines.nano(tmp_path).run("--yes", "--offline", str(tmp_path))
    assert (status, "come from apt, which needs a network once" in output) == (2, True)


@pytest.mark.parametrize("full", [{"FAKE_FREE": "4500"}, {"FAKE_FULL": "1"}])
def test_a_full_disk_is_told_and_leaves_nothing_half_done(full, tmp_path):
    board = machines.nano(tmp_path)
    before = board.state()
    status, output = board.run("--yes", **full)
    assert (status, "make room, or --swap with less" in output) == (2, True)
    assert board.state() == before
    assert board.run("--yes")[0] == 0


def test_without_a_terminal_and_without_yes_nothing_is_changed(tmp_path):
    board = machines.nano(tmp_path)
    before = board.state()
    status, output = board.run()
    assert (status, "say --yes, or --dry-run" in output) == (2, True)
    assert board.state() == before


@pytest.mark.slow
def test_at_a_terminal_each_step_of_the_system_is_asked_for_by_itself(tmp_path):
    board = machines.nano(tmp_path)
    ours, theirs = pty.openpty()
    os.write(ours, b"y\n" + b"n\nn\nn\ny\ny\n")  # all; swap, zram, headless; power, clocks
    status, output = board.run(stdin=theirs)
    assert (status, "left alone: swap zram headless" in output) == (0, True), output
    assert not board.called("fallocate")
    assert board.called("nvpmodel") and board.called("jetson_clocks")
    assert missing(board.run("--check")[1]) == ["swap", "zram", "headless"]
    os.write(ours, b"n\n")
    status, output = board.run(stdin=theirs)
    assert (status, "nothing was changed" in output) == (2, True)
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    "told, hint",
    [
        ("Certificate verification failed: not yet valid", "timedatectl set-ntp true"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend", "wait for it"),
        ("E: No space left on device", "the disk is full"),
    ],
)
def test_an_apt_that_fails_is_explained(told, hint, tmp_path):
    board = machines.nano(tmp_path)
    status, output = board.run("--yes", "--swap", "0", "--no-power", FAKE_APT=told)
    assert (status, hint in output, told in output) == (2, True, True)
    with open(board.path("edgeformer-setup.log"), encoding="ascii") as file:
        assert told in file.read()


def test_another_python_than_the_releases_is_refused(tmp_path):
    status, output = machines.nano(tmp_path).run("--yes", FAKE_PYTHON="3.8")
    assert (status, "python3 is 3.8; R32.7.4 has 3.6" in output) == (2, True)


def test_a_folder_that_is_no_environment_is_not_touched(tmp_path):
    board = machines.nano(tmp_path)
    boards.write(board.venv, "letters/one.txt", "dear")
    status, output = board.run("--yes")
    assert (status, "and no environment; say another --venv" in output) == (2, True)


@pytest.mark.slow
def test_what_doctor_finds_is_the_exit_status(tmp_path):
    assert machines.nano(tmp_path).run("--yes", FAKE_DOCTOR="1")[0] == 1


@pytest.mark.parametrize(
    "words", [["--swap", "lots"], ["--swap"], ["--frob"], ["--offline", "/no"]]
)
def test_wrong_options_are_refused_before_anything_is_done(words, tmp_path):
    board = machines.nano(tmp_path)
    before = board.state()
    status, output = board.run("--yes", *words)
    assert (status, output.startswith("error: ")) == (2, True)
    assert board.state() == before


def test_two_at_a_time_are_refused(tmp_path):
    board = machines.nano(tmp_path)
    log = board.path("edgeformer-setup.log")
    with open(log, "a") as held:
        subprocess.run(["flock", "-n", str(held.fileno())], check=True, pass_fds=[held.fileno()])
        status, output = board.run("--yes")
    assert (status, "another jetson_setup.sh is running" in output) == (2, True)


def test_the_table_of_versions_is_doctors():
    with open(machines.SCRIPT, encoding="ascii") as file:
        text = file.read()
    assert re.findall(r"^ +\[(r\d+)\.python\]", text, re.M) == [kit.name for kit in KITS]
    table = dict(re.findall(r'\[(r\d+\.\w+)\]=("[^"]*"|\S+)', text))
    for kit in KITS:
        rows = {"releases": " ".join(kit.releases), "python": kit.python, "pip": kit.pip}
        for name in ("packages", "build", "pycuda"):
            pins = getattr(kit, name)
            rows[name] = " ".join("%s==%s" % pin for pin in pins.items())
        for name, wanted in rows.items():
            assert " ".join(table["%s.%s" % (kit.name, name)].strip('"').split()) == wanted, (
                kit.name,
                name,
            )
