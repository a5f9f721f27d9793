"""What the checks look at: a root folder, this machine's board and what the probes found."""

import glob
import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from edgeformer.device import board, files
from edgeformer.device.doctor.pins import Kit, kit_for
from edgeformer.device.doctor.probes import Probe

SWAP_SETUP = "bash jetson_setup.sh --swap 4G"


class Machine(NamedTuple):
    """One look at a machine. `l4t` can be known where the board is not: in a container."""

    root: str
    environment: Mapping[str, str]
    probes: Dict[str, Probe]
    board: Optional[board.Board]
    container: bool
    l4t: Optional[str]
    kit: Optional[Kit]

    @property
    def arch(self) -> str:
        return str(self.probes["python"].found.get("arch", ""))

    @property
    def jetson(self) -> bool:
        return self.board is not None or self.l4t is not None

    @property
    def nano(self) -> bool:
        """The original one: Maxwell, without INT8."""
        known = self.board is not None and self.board.target == "jetson-nano"
        return known or (self.board is None and (self.l4t or "").startswith("32."))

    @property
    def python(self) -> str:
        return str(self.probes["python"].found.get("executable") or "python3")

    def pip(self, words: str) -> str:
        return f"{self.python} -m pip install {words}"

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    def glob(self, pattern: str) -> List[str]:
        return sorted(glob.glob(os.path.join(glob.escape(self.root), pattern)))

    def text(self, path: str) -> str:
        return files.text(self.root, path) or ""


def look(root: str, environment: Mapping[str, str], probes: Dict[str, Probe]) -> Machine:
    found, inside = board.read_board(root), board.in_container(root)
    l4t = found.l4t if found else None
    if found is None and inside and probes["python"].found.get("arch") == "aarch64":
        # Docker hides /proc/device-tree; the release is put in by the NVIDIA runtime.
        l4t = board.l4t_of(files.text(root, "etc/nv_tegra_release") or "")
    return Machine(root, environment, probes, found, inside, l4t, kit_for(l4t))


def library(machine: Machine, name: str) -> Tuple[str, List[str]]:
    """(version in the file name of lib{name}.so.VERSION, or "", and files of no bytes)."""
    paths = []
    for folder in ("usr/lib/aarch64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/local/cuda/lib64"):
        paths += machine.glob(f"{folder}/lib{name}.so.*")
    empty = [path for path in paths if os.path.isfile(path) and not os.path.getsize(path)]
    versions = [path.rpartition(".so.")[2] for path in paths if path not in empty]
    return max(versions, key=lambda v: (len(v.split(".")), numbers(v)), default=""), empty


def numbers(version: str) -> Tuple[int, ...]:
    """(1, 10, 0) of 1.10.0, for comparing."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:4])


def same_release(version: str, wanted: str) -> bool:
    """Whether 8.2.1.8 is of 8.2."""
    return (version + ".").startswith(wanted + ".")
