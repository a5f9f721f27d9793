"""`edgeformer doctor`: is this machine fit to run bundles, and what is to be done if not?

Nothing here imports what it examines: numpy and the like run in child processes (`probes`), and
everything else is read from files below a root folder.
"""

import os
import shutil
import sys
from typing import Callable, Dict, Iterator, List, Mapping, Optional

from edgeformer.device.doctor import bundles, mounts, probes, resources, software, system
from edgeformer.device.doctor.findings import Finding
from edgeformer.device.doctor.machine import Machine, look
from edgeformer.device.doctor.probes import Probe
from edgeformer.device.follow import find_tegrastats
from edgeformer.device.memory import machine_memory

ONE_BY_ONE = 1 << 30  # bytes available, below which children are not run together


def _probed(environment: Mapping[str, str], at_once: int) -> Dict[str, Probe]:
    return probes.run_all([sys.executable], environment, at_once)


def examine(
    bundle: Optional[str] = None,
    root: str = "/",
    environment: Optional[Mapping[str, str]] = None,
    free: Optional[Callable[[str], int]] = None,
    tegrastats: Optional[str] = None,
    probed: Callable[[Mapping[str, str], int], Dict[str, Probe]] = _probed,
) -> List[Finding]:
    """Every finding. The arguments after `bundle` are for tests: another machine's files,
    environment, free bytes of a folder, tegrastats, and what its probes find."""
    environment = probes.environment_of(environment if environment is not None else os.environ)
    available = machine_memory(root).available_bytes
    at_once = 1 if available is not None and available < ONE_BY_ONE else len(probes.BODIES)
    machine = look(root, environment, probed(environment, at_once))
    program = tegrastats if root != "/" else find_tegrastats()
    return list(_all(machine, bundle, free or _free, program))


def _all(
    machine: Machine, bundle: Optional[str], free: Callable[[str], int], program: Optional[str]
) -> Iterator[Finding]:
    for check in (system.board, system.release, mounts.container, system.cuda, system.libraries):
        yield from check(machine)
    for check in (
        software.python,
        software.numpy,
        software.onnxruntime,
        software.tensorrt,
        software.pycuda,
        software.extras,
    ):
        yield from check(machine)
    for check in (resources.memory, resources.desktop, resources.swap):
        yield from check(machine)
    folder = bundle if bundle and os.path.isdir(bundle) else os.getcwd()
    yield from resources.disk(machine, folder, free)
    for check in (resources.power, resources.clocks, resources.temperature):
        yield from check(machine)
    yield from resources.sensors(machine, program)
    if bundle:
        yield from bundles.bundle(machine, bundle)


def _free(folder: str) -> int:
    return shutil.disk_usage(folder).free
