"""Temperatures, and whether the machine slows itself down."""

import glob
import os
from typing import Dict, List, Optional, Tuple

from edgeformer.device import files
from edgeformer.device.board import read_clocks
from edgeformer.device.tegrastats import COLDEST, HOTTEST

# Not the chip's: the Nano's power controller tells a fixed 50 or 100 degrees.
_NOT_HEAT = ("pmic",)
_FANS = ("fan",)
SLACK = 0.98  # a clock that is read while it is set differs by less


def zone_paths(root: str = "/") -> List[Tuple[str, str]]:
    """(name, file of thousandths of a degree) of each sensor that tells something."""
    found = []
    for folder in sorted(glob.glob(os.path.join(root, "sys/class/thermal/thermal_zone*"))):
        name = files.text(folder, "type") or ""
        if name and not name.lower().startswith(_NOT_HEAT):
            found.append((name, os.path.join(folder, "temp")))
    return found


def temperatures(zones: List[Tuple[str, str]]) -> Dict[str, float]:
    """Degrees C by sensor; those that are off are missing."""
    found = {}
    for name, path in zones:
        value = files.number(path)
        if value is not None and COLDEST < value / 1000 < HOTTEST:
            found[name] = value / 1000
    return found


def hottest(by_sensor: Dict[str, float]) -> Optional[float]:
    """The hottest part, whatever sysfs or tegrastats told."""
    values = [v for name, v in by_sensor.items() if not name.lower().startswith(_NOT_HEAT)]
    return max(values) if values else None


def cooling_paths(root: str = "/") -> List[str]:
    """The state of everything that cools by slowing down; a fan is not among them."""
    found = []
    for folder in sorted(glob.glob(os.path.join(root, "sys/class/thermal/cooling_device*"))):
        name = (files.text(folder, "type") or "").lower()
        if name and not any(fan in name for fan in _FANS):
            found.append(os.path.join(folder, "cur_state"))
    return found


def throttled(cooling: List[str], root: str = "/") -> Optional[bool]:
    """Whether a part cools by slowing down, or a locked clock is below what it is locked at.

    A clock that is not locked says nothing: it falls because there is little to do.
    """
    states = [files.number(path) for path in cooling]
    known = [state for state in states if state is not None]
    if any(state > 0 for state in known):
        return True
    cpu, gpu = read_clocks(root)
    locked = [clock for clock in cpu + gpu if clock.low == clock.high]
    if any(clock.now < SLACK * clock.high for clock in locked):
        return True
    return False if known or locked else None
