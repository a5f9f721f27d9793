"""How many threads to compute with: the physical cores that this process may use."""

import os
from typing import Iterable, List, Optional


def default_threads(root: str = "/") -> int:
    """Physical cores in our affinity mask, no more than the cgroup pays for, at least one.

    Two threads on one core, or more threads than a container's quota, make a step slower.
    `root` is where /sys and /proc hang.
    """
    allowed = os.sched_getaffinity(0)
    cores = _cores(root, allowed)
    quota = _quota(root)
    return max(1, cores if quota is None else min(cores, int(quota)))


def _cores(root: str, cpus: Iterable[int]) -> int:
    """Distinct sets of sibling threads; every CPU counts where the kernel does not tell."""
    siblings = set()
    for cpu in cpus:
        folder = os.path.join(root, "sys/devices/system/cpu", f"cpu{cpu}", "topology")
        siblings.add(_read(os.path.join(folder, "thread_siblings_list")) or f"cpu {cpu}")
    return len(siblings)


def _quota(root: str) -> Optional[float]:
    """CPUs' worth of time that the tightest cgroup above us grants, or None."""
    quotas = []
    for line in _read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for folder in _upwards(path):
            if controllers:
                folder = os.path.join(root, "sys/fs/cgroup", "cpu", folder)
                quota = _read(os.path.join(folder, "cpu.cfs_quota_us"))
                numbers = [quota, _read(os.path.join(folder, "cpu.cfs_period_us"))]
            else:
                folder = os.path.join(root, "sys/fs/cgroup", folder)
                numbers = _read(os.path.join(folder, "cpu.max")).split()
            if len(numbers) == 2 and all(number.isdigit() for number in numbers):
                quotas.append(int(numbers[0]) / max(1, int(numbers[1])))
    return min(quotas) if quotas else None


def _upwards(path: str) -> List[str]:
    """`/a/b` -> `a/b`, `a`, ``: in a container only the last may exist, and it is ours then."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]


def _read(path: str) -> str:
    """A small file's text; "" where the kernel does not offer it."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
