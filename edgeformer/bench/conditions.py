"""Under what conditions something was measured: the machine, its state, and our own version."""

import os
import platform
import subprocess
from typing import Any, Dict, Optional, Sequence

from edgeformer import targets
from edgeformer.device import board, memory

PACKAGES = ("numpy", "onnxruntime", "tensorrt", "pycuda")
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def machine() -> Dict[str, Any]:
    """This machine, as the document has it, without what only those tell who loaded a package."""
    found = board.read_board()
    total = memory.machine_memory().total_bytes
    return {
        "processor": targets.processor(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "governor": board.governor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if total is None
        else total,
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": packages(()),
        "board": None if found is None else dict(found._asdict()),
        "container": board.in_container(),
        "huge_pages": memory.huge_page_mode(),
        "glibc_tunables": os.environ.get("GLIBC_TUNABLES"),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "bandwidth_bytes_per_s": None,
    }


def packages(told: Sequence[Dict[str, Any]]) -> Dict[str, Optional[str]]:
    """Versions of what the cases loaded, from what their processes told; None: nobody did."""
    found: Dict[str, Optional[str]] = dict.fromkeys(PACKAGES)
    for about in told:
        versions = about.get("packages", {})
        found.update({name: version for name, version in versions.items() if version})
    return found


def commit() -> Optional[str]:
    """The commit that this code stands at, `-dirty` where it was changed; None: not a clone."""
    if not os.path.exists(os.path.join(_ROOT, ".git")):
        return None
    head = _git("rev-parse", "HEAD")
    if not head:
        return None
    return head + ("-dirty" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", _ROOT, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return ""  # no git here
    return done.stdout.decode("ascii", "replace").strip()
