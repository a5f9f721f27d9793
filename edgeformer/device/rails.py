"""Power of a Jetson's rails, from the files of its INA3221 sensors."""

import glob
import os
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from edgeformer.device import files

# The rail that holds all others: the Nano's input, and the Orin Nano's and NX's module. An AGX
# Orin has none; its inputs are to be added.
WHOLE = ("POM_5V_IN", "VDD_IN")
PARTS = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
MORE_PARTS = ("VDDQ_VDD2_1V8AO",)  # not on every AGX Orin

_IIO = "sys/bus/i2c/drivers/ina3221x/*/iio:device*/rail_name_*"  # kernel 4.9: R32
_HWMON = "sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*/in*_label"  # R35 and newer


class Rail(NamedTuple):
    """A rail and the files that tell its power: one in mW, or voltage (mV) and current (mA)."""

    name: str
    paths: Tuple[str, ...]

    def watts(self) -> Optional[float]:
        values = [files.number(path) for path in self.paths]
        if None in values:
            return None
        return values[0] / 1e3 if len(values) == 1 else values[0] * values[1] / 1e6


def find_rails(root: str = "/") -> List[Rail]:
    """Every rail that has a name and a sensor; none where there is no INA3221."""
    found = []
    for label in sorted(glob.glob(os.path.join(root, _IIO))):
        folder, number = os.path.dirname(label), label.rpartition("_")[2]
        found.append((label, (os.path.join(folder, f"in_power{number}_input"),)))
    for label in sorted(glob.glob(os.path.join(root, _HWMON))):
        channel = os.path.basename(label)[len("in") : -len("_label")]
        names = (f"in{channel}_input", f"curr{channel}_input")
        found.append((label, tuple(os.path.join(os.path.dirname(label), n) for n in names)))
    rails = [Rail(files.text(label) or "", paths) for label, paths in found]
    # NC is not connected; the seventh channel, "Sum of shunt voltages", has no current of its own.
    return [
        rail for rail in rails if rail.name not in ("", "NC") and os.path.exists(rail.paths[-1])
    ]


def total_rails(names: List[str]) -> Tuple[str, ...]:
    """Which of these rails add up to the board; () where that is not known."""
    for name in WHOLE:
        if name in names:
            return (name,)
    if all(name in names for name in PARTS):
        return PARTS + tuple(name for name in MORE_PARTS if name in names)
    return ()


def board_watts(watts: Dict[str, float]) -> Optional[float]:
    """The whole board's power from that of its rails."""
    counted = total_rails(list(watts))
    return sum(watts[name] for name in counted) if counted else None


def board_meter(root: str = "/") -> Tuple[Optional[Callable[[], Optional[float]]], str]:
    """(a function that reads the board's power now or None, which rails): only theirs are read."""
    rails = {rail.name: rail for rail in find_rails(root)}
    counted = total_rails(list(rails))
    if not counted:
        return None, ""

    def read() -> Optional[float]:
        values = [rails[name].watts() for name in counted]
        return None if None in values else sum(values)

    return read, " + ".join(counted)
