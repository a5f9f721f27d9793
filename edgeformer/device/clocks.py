"""The clocks of the CPUs, the GPU and the memory just now, Hz; None where nothing tells one."""

import glob
import os
import re
from typing import Callable, Dict, List, Optional, Sequence

from edgeformer.device import board, files

CPUS, GPU, MEMORY = "cpu_hz", "gpu_hz", "emc_hz"
MOST_CPUS = 16  # that are asked, where there are more: each costs microseconds
# Of the memory controller, EMC: as root alone, on R32 and from R34. github.com/rbonghi/jetson_stats
_EMC = ("sys/kernel/debug/clk/emc/clk_rate", "sys/kernel/debug/bpmp/debug/clk/emc/rate")


class Clocks:
    """Finds the files once; `read()` is cheap."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._cpus = _cpu_files(root)
        folder = board.gpu_folder(root)
        self._gpu = _readable([os.path.join(folder, "cur_freq")] if folder else [])
        emc = sorted(glob.glob(os.path.join(root, "sys/class/devfreq/*emc*/cur_freq")))
        self._emc = _readable([os.path.join(root, path) for path in _EMC] + emc)

    def read(self) -> Dict[str, Optional[int]]:
        """Of the CPUs: the median of those that are on."""
        return {CPUS: self._cpu(), GPU: files.number(self._gpu), MEMORY: files.number(self._emc)}

    def _cpu(self) -> Optional[int]:
        if not self._cpus:
            return None
        running = _online(files.text(self._root, "sys/devices/system/cpu/online"))
        asked = [number for number in self._cpus if running is None or running(number)]
        asked = asked[:: -(-len(asked) // MOST_CPUS) or 1]
        found = [files.number(self._cpus[number]) for number in asked]
        return median_hz([kilohertz * 1000 for kilohertz in found if kilohertz])


def median_hz(clocks: Sequence[Optional[int]]) -> Optional[int]:
    """Of those that are told; of two in the middle the lower one, which is one that there was."""
    known = sorted(clock for clock in clocks if clock is not None)
    return known[(len(known) - 1) // 2] if known else None


def _cpu_files(root: str) -> Dict[int, str]:
    found = {}
    for path in glob.glob(os.path.join(root, "sys/devices/system/cpu/cpu[0-9]*")):
        number = os.path.basename(path)[3:]
        if number.isdigit() and os.path.exists(os.path.join(path, "cpufreq")):
            found[int(number)] = os.path.join(path, "cpufreq/scaling_cur_freq")
    return {number: found[number] for number in sorted(found)}


def _online(text: Optional[str]) -> Optional[Callable[[int], bool]]:
    """Whether a CPU of this number is on, from "0-3,6"; None where that is not told."""
    spans = re.findall(r"(\d{1,5})(?:-(\d{1,5}))?(?=,|\Z)", text or "", re.ASCII)
    if not spans:
        return None
    ends = [(int(first), int(last or first)) for first, last in spans]
    return lambda number: any(first <= number <= last for first, last in ends)


def _readable(paths: List[str]) -> str:
    return next((path for path in paths if files.number(path) is not None), "")
