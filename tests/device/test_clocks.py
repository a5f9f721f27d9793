"""The clocks that a machine's files tell, over the trees of a Nano, an Orin Nano and a PC."""

import os

import pytest

from edgeformer.device.clocks import Clocks, median_hz
from tests.device import boards

MHZ = 10**6
ONLINE = "sys/devices/system/cpu/online"


def cpu(number):
    return "sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq" % number


def told(root):
    found = Clocks(root).read()
    return found["cpu_hz"], found["gpu_hz"], found["emc_hz"]


def test_boards_and_a_pc_tell_what_they_have_and_no_zero_for_what_they_have_not(tmp_path):
    assert told(boards.nano(tmp_path / "nano")) == (1479 * MHZ, 921600000, None)
    assert told(boards.orin_nano(tmp_path / "orin")) == (729600000, 306 * MHZ, None)
    assert told(boards.pc(tmp_path / "pc")) == (1200 * MHZ, None, None)
    assert told(str(tmp_path / "nothing")) == (None, None, None)


@pytest.mark.parametrize(
    "path",
    [
        "sys/kernel/debug/clk/emc/clk_rate",
        "sys/kernel/debug/bpmp/debug/clk/emc/rate",
        "sys/class/devfreq/31b0000.emc/cur_freq",
    ],
)
def test_the_clock_of_the_memory_is_read_where_a_release_keeps_it(tmp_path, path):
    root = boards.nano(tmp_path)
    boards.write(root, path, "1600000000\n")
    assert told(root)[2] == 1600 * MHZ


def test_a_cpu_that_is_off_does_not_count(tmp_path):
    root = boards.nano(tmp_path)
    for number, kilohertz in enumerate((518000, 518000, 1479000, 1479000)):
        boards.write(root, cpu(number), "%d\n" % kilohertz)
    boards.write(root, cpu(4), "1479000\n")
    boards.write(root, ONLINE, "0-1\n")
    assert told(root)[0] == 518 * MHZ
    boards.write(root, ONLINE, "0,2-4\n")
    assert told(root)[0] == 1479 * MHZ


def test_clocks_are_read_again_each_time(tmp_path):
    root = boards.nano(tmp_path)
    clocks = Clocks(root)
    assert clocks.read()["cpu_hz"] == 1479 * MHZ
    for number in range(4):
        boards.write(root, cpu(number), "102000\n")
    assert clocks.read()["cpu_hz"] == 102 * MHZ


@pytest.mark.parametrize("text", ["", "<unknown>\n", "0\n", b"\xff\xfe"])
def test_a_cpu_that_does_not_tell_is_none(tmp_path, text):
    root = boards.pc(tmp_path)
    boards.write(root, cpu(0), text)
    assert told(root)[0] == 1200 * MHZ
    boards.write(root, cpu(1), text)
    assert told(root)[0] is None


@pytest.mark.parametrize("text", ["", "nobody knows\n", "-\n"])
def test_where_nobody_says_which_cpus_are_on_all_are_asked(tmp_path, text):
    root = boards.pc(tmp_path)
    boards.write(root, ONLINE, text)
    assert told(root)[0] == 1200 * MHZ


def test_of_many_cpus_only_every_so_manieth_is_asked(tmp_path):
    root = str(tmp_path)
    for number in range(100):
        boards.write(root, cpu(number), "1000000" if number % 7 == 0 else "2000000")
    assert told(root)[0] == 1000 * MHZ
    for number in range(16, 100):
        os.unlink(os.path.join(root, cpu(number)))
    boards.write(root, ONLINE, "0-15\n")
    assert told(root)[0] == 2000 * MHZ


def test_the_median_is_a_clock_that_there_was():
    assert median_hz([]) is None
    assert median_hz([None, None]) is None
    assert median_hz([3, None, 1, 2]) == 2
    assert median_hz([4, 1, 2, 3]) == 2
