"""One line of `tegrastats`, as R32 to R39 write it: what is there, and nothing that is not.

Only fields that stand whole between blanks are taken. A line that was cut ends in a number that
may lack digits, so a number counts only together with the sign that follows it. Where a second
line begins inside a line, numbers may be half of the one and half of the other from there on: only
what stands before it is taken. A field that stands twice and differs is left out.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

LONGEST = 1 << 14  # characters of a line; a real one has about 600
MIB = 1 << 20
MEGA = 1000000
HOTTEST = 200.0  # degrees C; and a sensor that is off tells -256
COLDEST = -60.0

_BLANKS = re.compile(r"[ \t]+")
_STAMP = re.compile(r"[\d: -]{1,20}(?=RAM )", re.ASCII)  # whole, or what is left of it
_BEGINNING = re.compile(r"\d\d-\d\d-\d{4} \d\d:|RAM {1,4}\d{1,7}/\d{1,7}MB", re.ASCII)
_MEMORY = re.compile(r"(?<!\S)(RAM|SWAP) (\d{1,7})/(\d{1,7})MB(?!\S)", re.ASCII)
_CPU = re.compile(r"(?<!\S)CPU \[([^\[\]]{1,2000})\](?!\S)", re.ASCII)
_CORE = re.compile(r"(\d{1,3})%@(\d{1,5})\Z", re.ASCII)
_LOAD = re.compile(r"(?<!\S)(GR3D|EMC)_FREQ (\d{1,3})%(?=[@\s]|\Z)", re.ASCII)
_CLOCK = re.compile(
    r"(?<!\S)(GR3D|EMC)_FREQ (?:\d{1,3}%)?@(?:\[(\d{1,5})(?:,\d{1,5})*\]|(\d{1,5}))(?=\s)", re.ASCII
)
# Only names that boards are known to have: two mixed lines make new ones.
_HEAT = re.compile(
    r"(?<!\S)(CPU|GPU|PLL|PMIC|AO|AUX|thermal|Tboard|Tdiode|CV\d|SOC\d|cpu|gpu|cv\d|soc\d|tj)"
    r"@(-?\d{1,3}(?:\.\d{1,4})?)C(?:/-?\d{1,3}(?:\.\d{1,4})?C)?(?!\S)",
    re.ASCII,
)
_RAIL = re.compile(
    r"(?<!\S)(POM_5V_(?:IN|GPU|CPU)|VDD_(?:IN|CPU_GPU_CV|SOC|GPU_SOC|CPU_CV)|VIN_SYS_5V0"
    r"|VDDQ_VDD2_1V8AO) (\d{1,6})(?:mW)?/(?=\d)",
    re.ASCII,
)


class Reading(NamedTuple):
    """One line. None or missing: the line does not tell. Bytes, shares of 1, Hz, degrees C, W."""

    ram_used_bytes: Optional[int]
    ram_total_bytes: Optional[int]
    swap_used_bytes: Optional[int]
    cores: Tuple[Optional[float], ...]  # each core's load; None: that core is off
    cores_hz: Tuple[Optional[int], ...]  # its clock
    gpu_load: Optional[float]
    gpu_hz: Optional[int]
    memory_load: Optional[float]  # of the memory controller, EMC
    memory_hz: Optional[int]
    temperatures_c: Dict[str, float]  # by the sensor's own name; sensors that are off are missing
    rails_w: Dict[str, float]  # now, not the average since tegrastats began

    def cpu_load(self) -> Optional[float]:
        """Mean load of the cores that are on."""
        loads = [load for load in self.cores if load is not None]
        return sum(loads) / len(loads) if loads else None


def parse(line: Union[bytes, str]) -> Reading:
    """What one line tells; an empty Reading where it is garbage. Never raises."""
    text = line.decode("ascii", "replace") if isinstance(line, bytes) else line
    text = _BLANKS.sub(" ", _one_line(text[:LONGEST]))
    memory = _once(_MEMORY, text, _bytes_of)
    loads = _once(_LOAD, text, lambda found: _share(found.group(2)))
    clocks = _once(_CLOCK, text, lambda found: int(found.group(2) or found.group(3)) * MEGA)
    cores = _cores(text)
    return Reading(
        ram_used_bytes=memory.get("RAM", (None, None))[0],
        ram_total_bytes=memory.get("RAM", (None, None))[1],
        swap_used_bytes=memory.get("SWAP", (None, None))[0],
        cores=tuple(core[0] if core else None for core in cores),
        cores_hz=tuple(core[1] if core else None for core in cores),
        gpu_load=loads.get("GR3D"),
        gpu_hz=clocks.get("GR3D"),
        memory_load=loads.get("EMC"),
        memory_hz=clocks.get("EMC"),
        temperatures_c=_once(_HEAT, text, _degrees),
        rails_w=_once(_RAIL, text, _watts),
    )


def _one_line(text: str) -> str:
    """What stands before a second beginning, without the word that it may have cut."""
    stamp = _STAMP.match(text)
    second = _BEGINNING.search(text, stamp.end() + 1 if stamp else 1)
    return text if second is None else text[: text.rfind(" ", 0, second.start() + 1) + 1]


def _once(pattern, text, value_of) -> Dict:
    """{first group: value} of what stands exactly once, or always says the same."""
    values: Dict[str, List] = {}
    for found in pattern.finditer(text):
        values.setdefault(found.group(1), []).append(value_of(found))
    same = {name: told[0] for name, told in values.items() if all(t == told[0] for t in told)}
    return {name: value for name, value in same.items() if value is not None}


def _bytes_of(found):
    used, total = int(found.group(2)) * MIB, int(found.group(3)) * MIB
    return (used, total) if used <= total else None


def _share(percent: str) -> Optional[float]:
    return int(percent) / 100 if int(percent) <= 100 else None


def _cores(text: str) -> List[Optional[Tuple[float, int]]]:
    """(load, clock) of each core; None: it is off."""
    found = _CPU.findall(text)
    if len(found) != 1:
        return []
    cores: List[Optional[Tuple[float, int]]] = []
    for word in found[0].split(","):
        core = _CORE.match(word)
        load = _share(core.group(1)) if core else None
        if core is not None and load is not None:
            cores.append((load, int(core.group(2)) * MEGA))
        elif word == "off":
            cores.append(None)
        else:
            return []  # one core is garbage, and which are the others is not known
    return cores


def _degrees(found) -> Optional[float]:
    value = float(found.group(2))
    return value if COLDEST < value < HOTTEST else None


def _watts(found) -> float:
    return int(found.group(2)) / 1000
