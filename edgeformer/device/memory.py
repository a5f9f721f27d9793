"""Memory of a process and of the machine, from /proc and /sys."""

import os
import re
from typing import Dict, NamedTuple, Optional

from edgeformer.device import files

_FIELD = re.compile(r"^(\w+):\s+(\d{1,15}) kB$", re.MULTILINE | re.ASCII)


class ProcessMemory(NamedTuple):
    """Bytes; None where the kernel does not tell."""

    rss_bytes: Optional[int]
    peak_rss_bytes: Optional[int]
    huge_bytes: Optional[int]  # anonymous memory in huge pages: it changes speed by itself


def _fields(text: Optional[str]) -> Dict[str, int]:
    return {name: int(value) << 10 for name, value in _FIELD.findall(text or "")}


def process_memory(pid: Optional[int] = None, root: str = "/") -> ProcessMemory:
    """Of a process, this one by default. Reading huge pages walks all its mappings: not for loops.

    The peak is that of the process since it began; a fresh process is how to measure one thing.
    """
    folder = os.path.join(root, "proc", "self" if pid is None else str(pid))
    status = _fields(files.text(folder, "status"))
    return ProcessMemory(status.get("VmRSS"), status.get("VmHWM"), _huge(folder))


def rss_now(pid: int, root: str = "/") -> Optional[int]:
    """Bytes of a process's memory, cheap enough for every sample; None once it has ended."""
    words = (files.text(root, "proc", str(pid), "statm") or "").split()
    pages = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    return pages * os.sysconf("SC_PAGE_SIZE") or None


def _huge(folder: str) -> Optional[int]:
    """Kernel 4.14 sums it up; the Nano's 4.9 tells it mapping by mapping."""
    rollup = _fields(files.text(folder, "smaps_rollup"))
    if rollup:
        return rollup.get("AnonHugePages")
    total = None
    try:
        with open(os.path.join(folder, "smaps"), encoding="ascii", errors="replace") as file:
            for line in file:
                found = line.startswith("AnonHugePages:") and _FIELD.match(line)
                if found:
                    total = (total or 0) + (int(found.group(2)) << 10)
    except OSError:
        return None
    return total


class MachineMemory(NamedTuple):
    """Bytes."""

    total_bytes: Optional[int]
    available_bytes: Optional[int]  # without swapping; on a board that is what the GPU can have too


def machine_memory(root: str = "/") -> MachineMemory:
    """The machine's memory now."""
    found = _fields(files.text(root, "proc/meminfo"))
    return MachineMemory(found.get("MemTotal"), found.get("MemAvailable"))


def huge_page_mode(root: str = "/") -> Optional[str]:
    """`always`, `madvise` or `never`: whether the kernel gives big blocks huge pages."""
    told = files.text(root, "sys/kernel/mm/transparent_hugepage/enabled") or ""
    found = re.search(r"\[(always|madvise|never)\]", told)
    return found.group(1) if found else None
