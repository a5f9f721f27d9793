"""The monitor: what it samples, what it cuts out, and that its child always goes."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest

from edgeformer.device import monitor as module
from edgeformer.device.follow import Follower
from edgeformer.device.monitor import Monitor, energy_between
from tests.device import boards
from tests.py36_grammar import ROOT


def sampled(root, seconds=0.4, **options):
    with Monitor(0.02, root=root, **options) as monitor:
        time.sleep(seconds)
    return monitor


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, within=5.0):
    end = time.time() + within
    while time.time() < end:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def pids_in(folder):
    with open(os.path.join(str(folder), "pid")) as file:
        return [int(line) for line in file]


def test_energy_is_the_integral_of_power():
    # 5 W and a sine of 2 W: its integral is known.
    power = [(t / 100, 5 + 2 * math.sin(t / 100)) for t in range(1001)]
    for t0, t1 in ((0.0, 10.0), (1.234, 7.891), (2.001, 2.499)):
        exact = 5 * (t1 - t0) + 2 * (math.cos(t0) - math.cos(t1))
        assert energy_between(power, t0, t1, 0.03) == pytest.approx(exact, rel=2e-5)


def test_energy_of_uneven_samples_is_exact_where_power_is_a_line():
    power = [(t, 3 + 0.5 * t) for t in (0.0, 0.1, 0.35, 0.4, 0.9, 1.0, 1.3)]
    assert energy_between(power, 0.2, 1.1, 1.0) == pytest.approx(3 * 0.9 + 0.25 * (1.21 - 0.04))


def test_energy_is_not_guessed():
    steady = [(t / 10, 4.0) for t in range(11)]
    assert energy_between(steady, 0.0, 1.0, 0.3) == pytest.approx(4.0)
    assert energy_between(steady, 0.41, 0.59, 0.3) is None  # one sample inside
    assert energy_between(steady, 0.0, 2.0, 0.3) is None  # nobody looked in the second half
    assert energy_between(steady[:3] + steady[8:], 0.0, 1.0, 0.3) is None  # nor in a gap
    assert energy_between(steady, 0.5, 0.5, 0.3) is None
    assert energy_between([], 0.0, 1.0, 0.3) is None


def test_a_nano_is_sampled_from_its_files(tmp_path):
    monitor = sampled(boards.nano(tmp_path))
    assert monitor.power_source == "INA3221, POM_5V_IN"
    assert len(monitor.samples) >= 10
    names = {"t_s", "available_bytes", "case", "phase", "power_w", "gpu_load", "temperature_c"}
    names |= {"cpu_load", "rss_bytes", "cpu_hz", "gpu_hz", "emc_hz"}
    assert set(monitor.samples[-1]) == names
    cut = monitor.slice(0.05, 0.35)
    assert cut.power_w == pytest.approx(3.014)
    assert cut.energy_j == pytest.approx(3.014 * 0.3)
    assert cut.gpu_load == pytest.approx(0.62)
    assert (cut.temperature_c, cut.throttled) == (48.5, False)
    assert cut.available_low_bytes == 2345678 << 10


def test_an_orin_nano_is_sampled_from_its_files(tmp_path):
    cut = sampled(boards.orin_nano(tmp_path)).slice(0.05, 0.35)
    assert cut.power_w == pytest.approx(6.625)
    assert cut.gpu_load == pytest.approx(0.055)
    assert cut.temperature_c == 50.25


def test_a_pc_has_no_power_and_no_gpu_load_rather_than_none_of_it(tmp_path):
    monitor = sampled(boards.pc(tmp_path))
    cut = monitor.slice(0.0, monitor.now())
    assert cut == (2345678 << 10, None, None, None, 61.0, False)
    assert monitor.power_source is None
    assert {sample["power_w"] for sample in monitor.samples} == {None}


def test_the_low_water_mark_is_the_lowest_of_its_slice(tmp_path):
    root = boards.pc(tmp_path)
    with Monitor(0.02, root=root) as monitor:
        time.sleep(0.15)
        low = monitor.now()
        boards.write(root, "proc/meminfo", "MemTotal: 4059528 kB\nMemAvailable:  1000 kB\n")
        time.sleep(0.15)
        boards.write(root, "proc/meminfo", boards.MEMINFO)
        high = monitor.now()
        time.sleep(0.15)
    assert monitor.slice(0, high).available_low_bytes == 1000 << 10
    assert monitor.slice(0, low).available_low_bytes == 2345678 << 10
    assert monitor.slice(high + 0.03, monitor.now()).available_low_bytes == 2345678 << 10


def test_samples_carry_what_was_running(tmp_path):
    with Monitor(0.02, root=boards.pc(tmp_path)) as monitor:
        time.sleep(0.1)
        monitor.case, monitor.phase = "tiny ort", "decode"
        time.sleep(0.1)
    seen = [(sample["case"], sample["phase"]) for sample in monitor.samples]
    assert seen[0] == (None, None)
    assert seen[-1] == ("tiny ort", "decode")


def test_samples_carry_the_memory_of_the_case_that_runs(tmp_path):
    code = "import time; held = bytearray(50 << 20); print(1, flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with child.stdout:
        child.stdout.readline()
        with Monitor(0.02) as monitor:
            monitor.processes["tiny ort"] = child.pid
            time.sleep(0.1)
            monitor.case = "tiny ort"
            time.sleep(0.2)
            child.kill()
            child.wait()
            time.sleep(0.4)
    seen = [sample["rss_bytes"] for sample in monitor.samples]
    assert seen[0] is None and seen[-1] is None
    assert 50 << 20 < max(rss for rss in seen if rss is not None) < 150 << 20


def test_throttling_in_a_slice_is_told_of_that_slice_alone(tmp_path):
    root = boards.orin_nano(tmp_path)
    state = "sys/class/thermal/cooling_device1/cur_state"
    with Monitor(0.02, root=root) as monitor:
        time.sleep(0.3)
        before = monitor.now()
        time.sleep(0.2)
        boards.write(root, state, "3")
        began = monitor.now()
        time.sleep(0.3)
    assert monitor.slice(0, before).throttled is False
    assert monitor.slice(began, monitor.now()).throttled is True


def test_this_machines_load_is_seen():
    with Monitor(0.05) as monitor:
        end = time.time() + 0.6
        while time.time() < end:
            sum(range(1000))
    loads = [s["cpu_load"] for s in monitor.samples if s["cpu_load"] is not None]
    assert max(loads) > 0.2
    assert all(0 <= load <= 1 for load in loads)


def test_the_monitor_itself_costs_little(tmp_path):
    monitor = sampled(boards.nano(tmp_path), seconds=1.0)
    assert monitor.cost_s / len(monitor.samples) < 0.005


def test_tegrastats_is_asked_where_files_tell_nothing(tmp_path):
    program = boards.tegrastats(tmp_path, "orinnano-r36-loaded")
    monitor = sampled(boards.pc(tmp_path / "pc"), seconds=0.8, tegrastats=program)
    cut = monitor.slice(0.4, 0.75)
    assert cut.power_w == pytest.approx(4.541)
    assert cut.gpu_load == pytest.approx(0.62)
    assert monitor.power_source == "tegrastats"
    assert gone(pids_in(tmp_path))
    assert len(pids_in(tmp_path)) == 1


def test_tegrastats_is_not_started_where_the_files_tell_everything(tmp_path):
    program = boards.tegrastats(tmp_path)
    sampled(boards.nano(tmp_path / "nano"), seconds=0.1, tegrastats=program)
    assert not os.path.exists(str(tmp_path / "pid"))


def test_a_tegrastats_that_falls_silent_is_not_quoted_any_longer(tmp_path):
    program = boards.write(
        tmp_path, "silent", "#!/bin/sh\necho 'RAM 1/2MB GR3D_FREQ 5% '\nexec sleep 60\n"
    )
    os.chmod(program, 0o755)
    follower = Follower(program, 0.05)
    try:
        end = time.time() + 3
        while follower.newest(10) is None and time.time() < end:
            time.sleep(0.01)
        assert follower.newest(10).gpu_load == 0.05
        time.sleep(0.4)
        assert follower.newest() is None
    finally:
        follower.stop()


def test_stopping_twice_and_a_program_that_ends_by_itself_are_no_trouble(tmp_path):
    program = boards.write(tmp_path, "short", "#!/bin/sh\necho cut\n")
    os.chmod(program, 0o755)
    follower = Follower(program, 0.05)
    time.sleep(0.2)
    follower.stop()
    follower.stop()


def test_a_tegrastats_that_will_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("edgeformer.device.follow.PATIENCE", 0.3)
    text = "#!/bin/sh\ntrap '' TERM\necho $$ >> %s/pid\nwhile :; do echo line; sleep 0.05; done\n"
    program = boards.write(tmp_path, "stubborn", text % tmp_path)
    os.chmod(program, 0o755)
    follower = Follower(program, 0.05)
    time.sleep(0.3)
    follower.stop()
    assert gone(pids_in(tmp_path))


CRASH = """
import sys, time
from edgeformer.device.monitor import Monitor
with Monitor(0.05, root=%r, tegrastats=%r) as monitor:
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_tegrastats_goes_when_its_parent_is_killed(tmp_path, number):
    program = boards.tegrastats(tmp_path)
    code = CRASH % (boards.pc(tmp_path / "pc"), program)
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
    )
    with child.stdout:
        child.stdout.readline()
    end = time.time() + 5
    while not os.path.exists(str(tmp_path / "pid")) and time.time() < end:
        time.sleep(0.02)
    (pid,) = pids_in(tmp_path)
    assert alive(pid)
    os.killpg(child.pid, number)  # as Ctrl-C does: the whole group
    child.wait(10)
    assert gone([pid])


def test_an_error_in_the_measured_code_passes_and_leaves_no_child(tmp_path):
    program = boards.tegrastats(tmp_path)
    with pytest.raises(ZeroDivisionError), Monitor(
        0.05, root=boards.pc(tmp_path / "pc"), tegrastats=program
    ):
        time.sleep(0.3)
        1 / 0  # noqa: B018
    assert gone(pids_in(tmp_path))


def test_times_of_another_process_are_placed_in_this_run():
    with Monitor(0.05, root=module.__file__) as monitor:
        code = "from time import perf_counter; print(perf_counter())"
        before = monitor.now()
        told = subprocess.check_output([sys.executable, "-c", code])
        assert before <= monitor.at(float(told)) <= monitor.now()


def test_tegrastats_tells_the_clocks_that_no_file_tells(tmp_path):
    program = boards.tegrastats(tmp_path, "xaviernx-r35")
    root = str(tmp_path / "bare")
    boards.write(root, "proc/meminfo", boards.MEMINFO)
    monitor = sampled(root, seconds=0.8, tegrastats=program)
    wanted = {"cpu_hz": 1190 * 10**6, "gpu_hz": 114 * 10**6, "emc_hz": 204 * 10**6}
    assert monitor.clocks(0.4, 0.75) == wanted
    assert {key: monitor.samples[-1][key] for key in wanted} == wanted
    monitor = sampled(boards.pc(tmp_path / "pc"), seconds=0.8, tegrastats=program)
    assert monitor.clocks(0.4, 0.75) == dict(wanted, cpu_hz=1200 * 10**6)


def test_a_clock_that_changes_is_told_as_its_mean(tmp_path):
    root = boards.orin_nano(tmp_path)
    with Monitor(0.02, root=root) as monitor:
        time.sleep(0.25)
        low = monitor.now()
        boards.write(root, boards.ORIN_GPU + "cur_freq", "918000000")
        high = monitor.now()
        time.sleep(0.25)
    assert monitor.clocks(0.0, low)["gpu_hz"] == 306 * 10**6
    assert monitor.clocks(high, monitor.now())["gpu_hz"] == 918 * 10**6
    assert 306 * 10**6 < monitor.clocks(0.0, monitor.now())["gpu_hz"] < 918 * 10**6
    assert set(monitor.clocks(-2.0, -1.0).values()) == {None}
