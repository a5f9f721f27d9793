"""Which Jetson this is and in what state: release, power mode, clocks."""

import glob
import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from edgeformer import targets
from edgeformer.device import files

# https://github.com/rbonghi/jetson_stats/blob/master/jtop/core/jetson_variables.py and, for
# R36.5, NVIDIA's JetPack archive. A release that is not here has no JetPack of ours: no guesses.
JETPACK = {
    "32.6.1": "4.6",
    "32.7.1": "4.6.1",
    "32.7.2": "4.6.2",
    "32.7.3": "4.6.3",
    "32.7.4": "4.6.4",
    "32.7.5": "4.6.5",
    "32.7.6": "4.6.6",
    "35.1.0": "5.0.2",
    "35.2.1": "5.1",
    "35.3.1": "5.1.1",
    "35.4.1": "5.1.2",
    "35.5.0": "5.1.3",
    "35.6.0": "5.1.4",
    "35.6.1": "5.1.5",
    "35.6.2": "5.1.5",
    "36.3.0": "6.0",
    "36.4.0": "6.1",
    "36.4.3": "6.2",
    "36.4.4": "6.2.1",
    "36.4.7": "6.2.1",
    "36.5.0": "6.2.2",
}

_RELEASE = re.compile(
    r"#\s*R(\d{1,3}) \(release\), REVISION: (\d{1,3}(?:\.\d{1,3}){0,2})", re.ASCII
)
_MODE = re.compile(
    r"^<\s*POWER_MODEL\s+ID=(\d{1,3})\s+NAME=([\w.-]{1,60})", re.MULTILINE | re.ASCII
)
_IN_CONTAINER = re.compile(r"docker|kubepods|containerd|lxc|libpod")


class Board(NamedTuple):
    """A Jetson; None where it does not tell."""

    model: str
    target: Optional[str]  # one of ours, or None: another Jetson
    l4t: Optional[str]
    jetpack: Optional[str]
    power_mode: Optional[str]  # by name: numbers differ from board to board and by release
    clocks_locked: Optional[bool]  # jetson_clocks


def read_board(root: str = "/") -> Optional[Board]:
    """The Jetson that this is, or None."""
    tree = targets.device_tree(root)
    compatible = files.text(tree, "compatible") or ""
    released = files.text(root, "etc/nv_tegra_release")
    if "nvidia,tegra" not in compatible:
        return None  # a file of /etc alone may be that of an image on a PC
    l4t = l4t_of(released or "")
    return Board(
        model=files.text(tree, "model") or compatible.replace("\0", " "),
        target=targets.this_board(tree) or None,
        l4t=l4t,
        jetpack=JETPACK.get(l4t) if l4t else None,
        power_mode=power_mode(root),
        clocks_locked=clocks_locked(root),
    )


def l4t_of(text: str) -> Optional[str]:
    """32.7.1 of `# R32 (release), REVISION: 7.1, ...`; the line's BOARD is not to be trusted."""
    found = _RELEASE.search(text)
    if found is None:
        return None
    whole = ".".join(found.groups())
    return whole if whole.count(".") == 2 else whole + ".0"


def power_mode(root: str = "/") -> Optional[str]:
    """The name of nvpmodel's mode, from the two files that it keeps; no program, no root needed."""
    status = re.search(r"pmode:(\d{1,4})", files.text(root, "var/lib/nvpmodel/status") or "")
    if status is None:
        return None
    number = str(int(status.group(1)))
    return power_modes(root).get(number, "mode " + number)


def power_modes(root: str = "/") -> Dict[str, str]:
    """{number: name} of the modes that this board has."""
    return dict(_MODE.findall(files.text(root, "etc/nvpmodel.conf") or ""))


class Clock(NamedTuple):
    """One clock's limits and value, Hz or kHz: only compared with each other."""

    low: int
    high: int
    now: int


def read_clocks(root: str = "/") -> Tuple[List[Clock], List[Clock]]:
    """(those of the CPU's cores, those of the GPU)."""
    cores = os.path.join(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq")
    names = ("scaling_min_freq", "scaling_max_freq", "scaling_cur_freq")
    return _clocks(cores, names), _clocks(
        os.path.join(gpu_folder(root) or "", ""), ("min_freq", "max_freq", "cur_freq")
    )


def _clocks(folders: str, names: Tuple[str, str, str]) -> List[Clock]:
    found = []
    for folder in sorted(glob.glob(folders)) if folders else ():
        values = [files.number(folder, name) for name in names]
        if None not in values:
            found.append(Clock(*values))
    return found


def gpu_folder(root: str = "/") -> Optional[str]:
    """The GPU's devfreq folder: 57000000.gpu on the Nano, 17000000.ga10b or .gpu on an Orin."""
    for name in ("*.gpu", "*.ga10b", "*.gv11b", "*.gp10b"):
        found = sorted(glob.glob(os.path.join(root, "sys/class/devfreq", name)))
        if found:
            return found[0]
    return None


def gpu_load_path(root: str = "/") -> Optional[str]:
    """The file that tells the GPU's load in thousandths."""
    folder = gpu_folder(root)
    paths = [
        os.path.join(root, "sys/devices", name) for name in ("gpu.0/load", "platform/gpu.0/load")
    ]
    paths += [os.path.join(folder, "device/load")] if folder else []
    for path in paths:
        if files.number(path) is not None:
            return path
    return None


def clocks_locked(root: str = "/") -> Optional[bool]:
    """Whether CPU and GPU have one clock each, as jetson_clocks sets; None: one does not tell."""
    cpu, gpu = read_clocks(root)
    if not cpu or not gpu:
        return None
    return all(clock.low == clock.high for clock in cpu + gpu)


def governor(root: str = "/") -> Optional[str]:
    """How the first CPU that tells it chooses its clock."""
    for path in sorted(glob.glob(os.path.join(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq"))):
        found = files.text(path, "scaling_governor")
        if found:
            return found
    return None


def in_container(root: str = "/") -> bool:
    """Whether this runs in a container, as far as its files tell."""
    marks = (".dockerenv", "run/.containerenv")
    if any(os.path.exists(os.path.join(root, mark)) for mark in marks):
        return True
    return bool(_IN_CONTAINER.search(files.text(root, "proc/1/cgroup") or ""))
