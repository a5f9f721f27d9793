"""How many threads to compute with, and how long they wait awake for work."""

import os
from typing import Any, Collection, Dict, Iterable, List, Optional

from edgeformer.asked import whole
from edgeformer.errors import EdgeformerError

# A core with less than this share of the fastest one's speed is of a slower kind.
ALIKE = 0.8
# What a thread spins for between two nodes, or two steps, before it sleeps. By default onnxruntime
# spins for 40 ms after each run, and on a busy machine that keeps the CPU from who has work.
SPIN_US = 100
SPIN_RELEASE, STOP_RELEASE = (1, 26), (1, 13)  # of onnxruntime: what it can be told from when on


def default_threads(root: str = "/", allowed: Optional[Collection[int]] = None) -> int:
    """Physical cores in our affinity mask, no more than the cgroup pays for, at least one.

    Two threads on one core, or more threads than a container's quota, make a step slower; so does
    a thread on a slower core, for which all others wait at the end of each product (an RK3588 with
    4 + 4 cores gives half the tokens on 8 threads: github.com/ggml-org/llama.cpp/issues/7176).
    `root` is where /sys and /proc hang, `allowed` the mask.
    """
    cpus = os.sched_getaffinity(0) if allowed is None else allowed
    cores = _cores(root, _fast(root, cpus))
    quota = _quota(root)
    return max(1, cores if quota is None else min(cores, int(quota)))


def check_threads(threads: Any, name: str = "threads") -> int:
    """Refuse what is no number of threads, or more than there are CPUs for us: that only waits."""
    most = len(os.sched_getaffinity(0))
    found = whole(threads)
    if found is None or found < 1:
        raise EdgeformerError(f"{name} is {threads!r}; it must be an integer from 1 to {most}")
    if found > most:
        raise EdgeformerError(
            f"{name} is {threads}, and this process may run on {most} CPU{'s' * (most > 1)}; "
            f"give {'1' if most == 1 else f'1 to {most}'}, or nothing for {default_threads()}"
        )
    return found


def spinning(release: str) -> Dict[str, str]:
    """Options of a session of this onnxruntime, so that no thread spins long behind a step."""
    found = tuple(int(part) if part.isdigit() else 0 for part in release.split(".")[:2])
    if found >= SPIN_RELEASE:
        return {"session.intra_op.spin_duration_us": str(SPIN_US)}
    return {"session.force_spinning_stop": "1"} if found >= STOP_RELEASE else {}


def _fast(root: str, cpus: Collection[int]) -> Collection[int]:
    """The CPUs of the fastest kind; of the two fastest where that is a single core, and so on."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        told = {cpu: _read(os.path.join(_folder(root, cpu), name)) for cpu in cpus}
        if told and all(text.isdigit() for text in told.values()):
            break
    else:
        return cpus
    left = {cpu: int(text) for cpu, text in told.items()}
    chosen: List[int] = []
    while left and (not chosen or _cores(root, chosen) < 2):
        least = ALIKE * max(left.values())
        chosen += [cpu for cpu, speed in left.items() if speed >= least]
        left = {cpu: speed for cpu, speed in left.items() if speed < least}
    return chosen


def _folder(root: str, cpu: int) -> str:
    return os.path.join(root, "sys/devices/system/cpu", f"cpu{cpu}")


def _cores(root: str, cpus: Iterable[int]) -> int:
    """Distinct sets of sibling threads; every CPU counts where the kernel does not tell."""
    siblings = set()
    for cpu in cpus:
        name = os.path.join(_folder(root, cpu), "topology", "thread_siblings_list")
        siblings.add(_read(name) or f"cpu {cpu}")
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
