"""Memory, swap, disk, power, clocks and heat, as they are now."""

import os
import re
from typing import Callable, Iterator, List, Optional, Tuple

from edgeformer.device import board, heat, rails
from edgeformer.device.clocks import Clocks
from edgeformer.device.doctor.findings import BLOCKS, NOTE, OK, PROBLEM, Finding
from edgeformer.device.doctor.machine import SWAP_SETUP, Machine
from edgeformer.device.memory import machine_memory

MIB = 1 << 20
GIB = 1 << 30
# CUDA, cuBLAS and cuDNN of a process on a Nano: 203 + 158 + 240 MiB with TensorRT 8.0.1
LIBRARIES = 650 * MIB
SMALL_BOARD = 9 * GIB  # on these, building an engine wants swap
ENOUGH_SWAP = 2 * GIB
DESKTOPS = {"Xorg", "Xwayland", "gnome-shell", "compiz", "lxsession", "lxpanel"}
WARM, HOT = 70.0, 85.0
HEADLESS = "sudo systemctl set-default multi-user.target, then reboot"


def memory(machine: Machine) -> Iterator[Finding]:
    found = machine_memory(machine.root)
    if found.total_bytes is None or found.available_bytes is None:
        text = "/proc/meminfo does not tell"
        yield Finding("memory", NOTE, text, "whether a bundle fits is not known")
        return
    # What is available counts page cache, which goes when it is needed; CUDA's "free" does not.
    text = f"{found.available_bytes // MIB} of {found.total_bytes // MIB} MiB available"
    if machine.jetson and found.available_bytes < LIBRARIES:
        yield Finding(
            "memory",
            PROBLEM,
            text,
            "CUDA, cuBLAS and cuDNN alone take about 0.65 GB of a process before any weight",
            HEADLESS,
        )
    else:
        yield Finding("memory", OK, text)


def desktop(machine: Machine) -> Iterator[Finding]:
    if not machine.jetson or machine.container:
        return
    running = sorted(
        {name for path in machine.glob("proc/[0-9]*/comm") for name in _line(path)} & DESKTOPS
    )
    boots = os.path.basename(os.path.realpath(machine.path("etc/systemd/system/default.target")))
    if running or boots == "graphical.target":
        what = f"runs ({', '.join(running)})" if running else "starts at boot"
        yield Finding(
            "desktop",
            NOTE,
            f"a desktop {what}",
            "it takes about 800 MB (LXDE: 250), which the GPU could have",
            HEADLESS,
        )


def _line(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return [file.read(100).strip()]
    except OSError:
        return []  # a process that has just ended


def swap(machine: Machine) -> Iterator[Finding]:
    total = machine_memory(machine.root).total_bytes or 0
    if not machine.jetson or machine.container or total > SMALL_BOARD:
        return
    spaces = _swaps(machine)
    zram = sum(size for name, size in spaces if "zram" in name)
    disk = sum(size for name, size in spaces) - zram
    text = f"{disk // MIB} MiB on disk, {zram // MIB} MiB of zram"
    if disk >= ENOUGH_SWAP:
        yield Finding("swap", OK, text)
        return
    why = "reading a model and building its engine take host memory that swap can give"
    if zram and not disk:
        why += "; zram is taken from the very memory that is short"
    worst = PROBLEM if total < 4.5 * GIB and not spaces else NOTE
    yield Finding("swap", worst, text, why, SWAP_SETUP)


def _swaps(machine: Machine) -> List[Tuple[str, int]]:
    """(name, bytes) of each."""
    lines = machine.text("proc/swaps").splitlines()[1:]
    words = [line.split() for line in lines]
    return [(w[0], int(w[2]) << 10) for w in words if len(w) > 2 and w[2].isdigit()]


def disk(machine: Machine, folder: str, free: Callable[[str], int]) -> Iterator[Finding]:
    """Where a bundle's engines are written."""
    left = free(folder)
    text = f"{left / GIB:.1f} GB free for {folder}"
    if left < 64 * MIB:
        yield Finding("disk", BLOCKS, text, "not even a log can be written", f"df -h {folder}")
    elif left < GIB:
        why = "an engine is as large as its weights, and is written beside the old one"
        yield Finding("disk", PROBLEM, text, why, f"df -h {folder}; sudo apt clean")
    else:
        yield Finding("disk", OK, text)


def power(machine: Machine) -> Iterator[Finding]:
    if machine.board is None:
        return
    mode = machine.board.power_mode
    best = _best_mode(machine)
    if mode is None:
        yield Finding(
            "power mode",
            NOTE,
            "not told: /var/lib/nvpmodel/status is not there",
            "a speed means little without it",
            "sudo nvpmodel -q",
        )
    elif best is not None and mode != best[1]:
        lower = "its GPU is held at 614 MHz and two cores are off" if mode == "5W" else ""
        yield Finding(
            "power mode",
            NOTE,
            f"{mode}; the fastest here is {best[1]}",
            f"the mode outlives a reboot{'; ' + lower if lower else ''}",
            f"sudo nvpmodel -m {best[0]}",
        )
    else:
        yield Finding("power mode", OK, mode)
    off = _offline(machine)
    if off:
        text = "a mode switches cores off; fewer threads compute"
        yield Finding("cores", NOTE, f"off: {off}", text, "sudo nvpmodel -q")


def _best_mode(machine: Machine) -> Optional[Tuple[str, str]]:
    """(number, name): MAXN by name, else the most watts. Never by number: those differ."""
    modes = board.power_modes(machine.root)
    for number, name in modes.items():
        if name.startswith("MAXN"):
            return number, name
    watts = {
        int(found.group(1)): (number, name)
        for number, name in modes.items()
        for found in [re.match(r"(\d{1,3})W", name)]
        if found
    }
    return watts[max(watts)] if watts else None


def _offline(machine: Machine) -> str:
    return machine.text("sys/devices/system/cpu/offline")


def clocks(machine: Machine) -> Iterator[Finding]:
    if machine.board is None:
        return
    locked = machine.board.clocks_locked
    now = Clocks(machine.root).read()
    told = [
        f"{name} {hz // 1000000} MHz"
        for name, hz in zip(("CPU", "GPU", "memory"), now.values())
        if hz
    ]
    text = ", ".join(told) or "not told"
    if locked is False:
        yield Finding(
            "clocks",
            NOTE,
            f"{text}, free to fall",
            "a step is short: clocks that follow the load are late for it",
            "sudo jetson_clocks (until the next boot)",
        )
    else:
        yield Finding("clocks", OK, f"{text}, locked" if locked else text)


def temperature(machine: Machine) -> Iterator[Finding]:
    degrees = heat.hottest(heat.temperatures(heat.zone_paths(machine.root)))
    if degrees is not None:
        text, fan = f"{degrees:.0f} C", "cool it: a fan; echo 255 into its target_pwm or pwm1"
        if machine.jetson and degrees >= WARM:
            status = PROBLEM if degrees >= HOT else NOTE
            yield Finding("temperature", status, text, "near 97 C clocks are taken down", fan)
        else:
            yield Finding("temperature", OK, text)
    slowed = heat.throttled(heat.cooling_paths(machine.root), machine.root)
    if slowed and machine.jetson:
        yield Finding(
            "throttling",
            PROBLEM,
            "the board slows itself down now",
            "whatever is measured now is of a slower board",
            "cool it, or give it the supply that its power mode needs (5 V 4 A on a Nano's jack)",
        )
    elif slowed is not None and machine.jetson:
        yield Finding("throttling", OK, "none now")
    events = [
        path
        for path in machine.glob("sys/class/hwmon/hwmon*/oc*_event_cnt")
        if machine.text(os.path.relpath(path, machine.root)) not in ("", "0")
    ]
    if events:
        yield Finding(
            "supply",
            PROBLEM,
            f"over-current events since boot ({', '.join(map(os.path.basename, events))})",
            "a supply that is too weak slows the board down, or switches it off",
            "use the board's own supply (5 V 4 A on a Nano's barrel jack, J48 closed)",
        )


def sensors(machine: Machine, tegrastats: Optional[str]) -> Iterator[Finding]:
    """What `bench` measures power with."""
    if not machine.jetson:
        return
    _, counted = rails.board_meter(machine.root)
    if counted:
        yield Finding("sensors", OK, f"power: {counted}")
    elif tegrastats:
        yield Finding("sensors", OK, f"power: {tegrastats}")
    else:
        yield Finding(
            "sensors",
            NOTE,
            "neither power sensors nor tegrastats",
            "bench tells no energy without them",
            "docker run ... -v /usr/bin/tegrastats:/usr/bin/tegrastats:ro"
            if machine.container
            else "sudo apt install nvidia-l4t-tools",
        )
