"""Threads by default: physical cores that this process may use and its cgroup pays for."""

import os

import pytest

from edgeformer.backends.threads import default_threads

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
