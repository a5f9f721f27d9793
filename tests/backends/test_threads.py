"""Threads by default: physical cores that this process may use and its cgroup pays for."""

import os
import subprocess
import sys
import time

import onnxruntime
import pytest

from edgeformer.backends import open_ort
from edgeformer.backends.threads import check_threads, default_threads, spinning
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from tests import bundles

CPUS = sorted(os.sched_getaffinity(0))


def written(root, files):
    for name, text in files.items():
        path = root / name
        os.makedirs(str(path.parent), exist_ok=True)
        path.write_text(text + "\n")
    return str(root)


def siblings(groups):
    """A fake /sys in which CPU number i stands in the core groups[i]."""
    name = "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list"
    return {name % cpu: "core-%d" % group for cpu, group in groups.items()}


def test_two_threads_of_one_core_count_once(tmp_path):
    root = written(tmp_path, siblings(dict.fromkeys(CPUS, 0)))
    assert default_threads(root) == 1


def test_cores_that_we_may_not_use_do_not_count(tmp_path):
    root = written(tmp_path, siblings({cpu: cpu for cpu in range(max(CPUS) + 8)}))
    assert default_threads(root) == len(CPUS)


def test_every_cpu_counts_where_the_kernel_does_not_tell(tmp_path):
    assert default_threads(str(tmp_path)) == len(CPUS)


CPU = "sys/devices/system/cpu/cpu%d/"
CAPACITY, CLOCK = CPU + "cpu_capacity", CPU + "cpufreq/cpuinfo_max_freq"


def told(name, values):
    return {name % cpu: str(value) for cpu, value in enumerate(values)}


@pytest.mark.parametrize(
    "files, cpus, wanted",
    [
        # Jetson Nano: four Cortex-A57, a kernel that tells no capacity
        (told(CLOCK, [1479000] * 4), 4, 4),
        # Jetson Orin Nano: six Cortex-A78AE in clusters of four and two
        (told(CAPACITY, [1024] * 6), 6, 6),
        # RK3588: four Cortex-A55, four Cortex-A76 of two clocks
        (told(CAPACITY, [414] * 4 + [1024, 1024, 983, 983]), 8, 4),
        (told(CLOCK, [1800000] * 4 + [2400000] * 4), 8, 4),
        # Raspberry Pi 5: four Cortex-A76
        (told(CAPACITY, [1024] * 4), 4, 4),
        # RK3399: four A53 and two A72; Pixel 4a: six A55 and two A76
        (told(CAPACITY, [381] * 4 + [1024] * 2), 6, 2),
        (told(CAPACITY, [430] * 6 + [1024] * 2), 8, 2),
        # a phone: four small cores, three large ones, one that is larger still
        (told(CAPACITY, [250] * 4 + [700] * 3 + [1024]), 8, 4),
        # one large core and three small ones: alone it would have no help
        (told(CAPACITY, [1024, 400, 400, 400]), 4, 4),
        # a processor whose best cores clock a little higher, two threads each
        (
            dict(told(CLOCK, [5700000, 5500000] * 8), **siblings({i: i // 2 for i in range(16)})),
            16,
            8,
        ),
        # large cores with two threads each, and small ones
        (
            dict(
                told(CLOCK, [5200000] * 8 + [3900000] * 4),
                **siblings({i: min(i, 8) // 2 + max(0, i - 8) for i in range(12)}),
            ),
            12,
            4,
        ),
        # one CPU of four tells nothing: no kind is guessed
        (told(CAPACITY, [414, 414, 1024]), 4, 4),
        (told(CAPACITY, ["", "many", 1024, 414]), 4, 4),
    ],
)
def test_cores_of_a_slower_kind_do_not_count(tmp_path, files, cpus, wanted):
    assert default_threads(written(tmp_path, files), range(cpus)) == wanted


def test_of_a_cpuset_its_own_fastest_count(tmp_path):
    root = written(tmp_path, told(CAPACITY, [414] * 4 + [1024] * 4))
    assert default_threads(root, [4, 5]) == 2
    assert default_threads(root, [0, 1, 2]) == 3
    assert default_threads(root, [0, 1, 6]) == 3  # a single large core waits for no help
    assert default_threads(root, [0, 5, 6]) == 2
    assert default_threads(root, [2]) == 1


def test_a_quota_counts_behind_the_kinds(tmp_path):
    files = told(CAPACITY, [414] * 4 + [1024] * 4)
    files.update({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"})
    assert default_threads(written(tmp_path, files), range(8)) == 1
    files["sys/fs/cgroup/cpu.max"] = "300000 100000"
    assert default_threads(written(tmp_path, files), range(8)) == 3
    files["sys/fs/cgroup/cpu.max"] = "700000 100000"
    assert default_threads(written(tmp_path, files), range(8)) == 4


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2", 100000])
def test_threads_that_make_no_sense_are_refused(wrong):
    with pytest.raises(EdgeformerError, match=r"--threads is .* 1"):
        check_threads(wrong, "--threads")
    check_threads(1)
    check_threads(len(CPUS))


@pytest.mark.parametrize("verb", ["generate", "check", "bench", "plan --speed"])
@pytest.mark.parametrize("wrong, words", [("0", "from 1 to"), ("-3", "from 1 to"), ("9999", "CPU")])
def test_each_verb_that_loads_refuses_them(verb, wrong, words):
    prompt = ["once"] if verb == "generate" else []
    child = subprocess.run(
        [sys.executable, "-m", "edgeformer", *verb.split(), bundles.ROPE, *prompt]
        + ["--threads=" + wrong],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert child.returncode == 2, child.stderr
    assert words in child.stderr and "Traceback" not in child.stderr and child.stdout == ""


def test_what_onnxruntime_is_told_of_waiting():
    assert spinning("1.10.0") == {}
    assert spinning("1.24.1") == {"session.force_spinning_stop": "1"}
    assert spinning("1.26.0") == spinning("2.0.0") == {"session.intra_op.spin_duration_us": "100"}


@pytest.mark.skipif(len(CPUS) < 2, reason="one thread never waits")
@pytest.mark.skipif(not spinning(onnxruntime.__version__), reason="this onnxruntime spins on")
def test_no_thread_spins_on_while_a_user_reads():
    """It did for 40 ms and more behind each step."""
    with open_ort(Bundle.open(bundles.ROPE), 2) as backend:
        used = []
        for _ in range(3):
            backend.truncate(0)
            backend.step(range(16), range(16), [15], "token")
            started = time.process_time()
            time.sleep(0.1)
            used.append(time.process_time() - started)
    assert min(used) < 0.01


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"},
        {"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/cpu.max": "100000 100000"},
        {
            "proc/self/cgroup": "3:memory:/x\n1:cpu,cpuacct:/docker/x",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
    ],
)
def test_a_quota_below_two_cpus_means_one_thread(tmp_path, files):
    assert default_threads(written(tmp_path, files)) == 1


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"},
        {
            "proc/self/cgroup": "1:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        {"proc/self/cgroup": "garbage"},
    ],
)
def test_no_quota_leaves_all_cores(tmp_path, files):
    assert default_threads(written(tmp_path, files)) == len(CPUS)


def test_this_machine_gives_at_least_one():
    assert 1 <= default_threads() <= len(CPUS)
