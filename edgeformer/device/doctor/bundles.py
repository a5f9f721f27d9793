"""A bundle on this machine: whole, runnable, fitting, and the state of its engines."""

import os
from typing import Iterator, List

from edgeformer.bundle import Bundle
from edgeformer.device.doctor.findings import BLOCKS, NOTE, OK, PROBLEM, Finding
from edgeformer.device.doctor.machine import Machine, numbers
from edgeformer.device.memory import machine_memory
from edgeformer.engines.record import FOLDER, EngineSet, engine_sets
from edgeformer.errors import BundleError

MIB = 1 << 20


def bundle(machine: Machine, path: str) -> Iterator[Finding]:
    try:
        found = Bundle.open(path)
    except BundleError as error:
        fact, _, fix = str(error).partition("; ")
        yield Finding("bundle", BLOCKS, fact, "it cannot be loaded", fix)
        return
    manifest, size = found.manifest, sum(found.sizes().values())
    yield Finding(
        "bundle",
        OK,
        f"{manifest.name}: {manifest.precision}, {manifest.dialect}, {size / 1e6:.1f} MB; "
        "sizes are right (check reads every byte)",
    )
    usable, refused = engine_sets(found)
    fitting = [one for one in usable if not _foreign(machine, one)]
    works = [machine.probes[name].well for name in ("tensorrt", "pycuda")]
    yield from _runs(machine, found, bool(fitting) and all(works))
    yield from _fits(machine, size)
    yield from _engines(machine, found, path, usable, refused)


def _runs(machine: Machine, found: Bundle, has_engines: bool) -> Iterator[Finding]:
    manifest, here = found.manifest, machine.probes["onnxruntime"]
    if machine.nano and manifest.precision == "int8-qdq":
        yield Finding(
            "precision",
            PROBLEM,
            "int8-qdq graphs on a Jetson Nano",
            "its GPU has no INT8: TensorRT stops at QuantizeLinear nodes",
            "export with --precision fp32 (engines: FP16), or int8-dynamic for its CPU",
        )
    oldest = manifest.min_onnxruntime
    if here.version and numbers(here.version) < numbers(oldest):
        yield Finding(
            "bundle needs",
            PROBLEM if has_engines else BLOCKS,
            f"onnxruntime {oldest}, and here is {here.version}",
            f"its graphs ({manifest.dialect}, {manifest.precision}) hold operators that older "
            "ones lack",
            "export it for this board: --target jetson-nano, --precision fp32 or int8-dynamic",
        )


def _fits(machine: Machine, size: int) -> Iterator[Finding]:
    available = machine_memory(machine.root).available_bytes
    if available is not None and size > available:
        yield Finding(
            "fit",
            PROBLEM,
            f"{size // MIB} MiB of bundle, {available // MIB} MiB of memory available",
            "weights have to be in memory",
            "python -m edgeformer plan BUNDLE tells the one change that makes it fit",
        )


def _foreign(machine: Machine, one: EngineSet) -> str:
    """Which part of an engine's key is another machine's; "" also where this one does not tell."""
    version = machine.probes["tensorrt"].version
    gpu = machine.probes["pycuda"].found
    if version and one.tensorrt != version:
        return f"TensorRT {one.tensorrt}, and here is {version}"
    capability = gpu.get("compute_capability")
    if capability and one.device.compute_capability != capability:
        return f"compute capability {one.device.compute_capability}, and here is {capability}"
    if gpu.get("gpu") and one.device.name != gpu["gpu"]:
        return f"{one.device.name}, and here is {gpu['gpu']}"
    return ""


def _engines(
    machine: Machine, found: Bundle, path: str, usable: List[EngineSet], refused: List[str]
) -> Iterator[Finding]:
    for why in refused:
        fact, _, fix = why.partition("; ")
        yield Finding("engine", PROBLEM, fact, "it is not used", fix.replace("BUNDLE", path))
    good = 0
    for one in usable:
        foreign = _foreign(machine, one)
        if foreign:
            yield Finding(
                "engine",
                PROBLEM,
                f"{FOLDER}/{one.key} was built by or for {foreign}",
                "an engine runs on the TensorRT and the GPU that it was built with, and nowhere "
                "else",
                f"python -m edgeformer build {path} --prune",
            )
        elif machine.nano and one.precision == "int8":
            text = f"{FOLDER}/{one.key} is INT8"
            why = "the Nano's GPU has none: it is no faster than FP16"
            fix = f"python -m edgeformer build {path} --precision fp16"
            yield Finding("engine", PROBLEM, text, why, fix)
        else:
            good += 1
            text = f"{FOLDER}/{one.key}: {one.precision}, {one.layout}, TensorRT {one.tensorrt}"
            yield Finding("engine", OK, text)
    if not good and not usable and not refused and machine.jetson:
        yield Finding(
            "engine",
            NOTE,
            "none has been built",
            "until then the CPU runs the bundle",
            f"python -m edgeformer build {path}",
        )
    yield from _leftovers(machine, path)


def _leftovers(machine: Machine, path: str) -> Iterator[Finding]:
    folder = os.path.join(path, FOLDER)
    parts = [n for n in os.listdir(folder) if ".part-" in n] if os.path.isdir(folder) else []
    if parts:
        yield Finding(
            "engine",
            NOTE,
            f"{FOLDER}/{parts[0]} is not finished: a build runs, or was killed",
            "it takes room until the next build",
            f"python -m edgeformer build {path}",
        )
    place = folder if os.path.isdir(folder) else path
    if machine.jetson and not os.access(place, os.W_OK):
        yield Finding(
            "engine",
            PROBLEM,
            f"{place} cannot be written",
            "engines are stored there",
            f"mount it writable (docker run -v), or sudo chown -R $USER {place}",
        )
