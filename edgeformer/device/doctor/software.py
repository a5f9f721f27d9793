"""Python and its packages, from what their probes did."""

import os
import re
from typing import Iterator

from edgeformer.device.doctor.findings import BLOCKS, NOTE, OK, PROBLEM, Finding
from edgeformer.device.doctor.machine import Machine, library, numbers, same_release
from edgeformer.device.doctor.pins import requirement
from edgeformer.device.doctor.probes import Probe, missing

OLDEST_NUMPY = "1.16.6"
CRASHES = "1.19.5"
CURE = "export OPENBLAS_CORETYPE=ARMV8"


def python(machine: Machine) -> Iterator[Finding]:
    probe = machine.probes["python"]
    if not probe.well:
        yield Finding("Python", BLOCKS, _ended("Python", probe), "nothing runs without it")
        return
    kit, text = machine.kit, f"Python {probe.version}, {machine.python}"
    if kit and not same_release(probe.version, kit.python):
        yield Finding(
            "Python",
            PROBLEM,
            f"{text}; R{machine.l4t} comes with {kit.python}",
            "its tensorrt module is built for that Python alone: no engines with this one",
            f"python{kit.python} -m edgeformer doctor",
        )
    else:
        yield Finding("Python", OK, text)
    pip = machine.probes["pip"]
    if kit and kit.python == "3.6" and pip.well and numbers(pip.version) < (20, 3):
        yield Finding(
            "pip",
            PROBLEM,
            f"pip {pip.version}",
            "it does not know manylinux2014: it finds no wheel of numpy or onnxruntime for aarch64",
            machine.pip(f"'pip=={kit.pip}'"),
        )


def numpy(machine: Machine) -> Iterator[Finding]:
    probe = machine.probes["numpy"]
    pin = machine.pip(f"--only-binary=:all: --no-deps {requirement(machine.kit, 'numpy')}")
    if probe.died == "SIGILL":
        cured = machine.probes.get("numpy cured")
        helps = cured is not None and cured.well
        version = f" {cured.version}" if helps else ""
        yield Finding(
            "numpy",
            BLOCKS,
            f"numpy{version} dies with an illegal instruction (SIGILL) when it is imported",
            "its OpenBLAS takes a Jetson's core for another one; OPENBLAS_CORETYPE=ARMV8 "
            + ("helps" if helps else "does not help"),
            f"{CURE}; {pin}" if helps else pin,
        )
    elif not probe.well:
        why = "cached rows, sampling and onnxruntime are numpy's"
        yield Finding("numpy", BLOCKS, _ended("numpy", probe), why, pin)
    elif not probe.found.get("right"):
        text = f"numpy {probe.version} multiplies matrices wrongly"
        yield Finding("numpy", BLOCKS, text, "so would every model", pin)
    elif numbers(probe.version) < numbers(OLDEST_NUMPY):
        yield Finding(
            "numpy",
            PROBLEM,
            f"numpy {probe.version}, {probe.found.get('path')}",
            f"onnxruntime computes nothing with a numpy before {OLDEST_NUMPY}, although it imports",
            pin,
        )
    elif _crashes_elsewhere(machine, probe.version):
        yield Finding(
            "numpy",
            PROBLEM,
            f"numpy {CRASHES} on a Jetson",
            "it dies with an illegal instruction where OPENBLAS_CORETYPE is not set: under sudo, "
            "cron, systemd",
            pin,
        )
    else:
        yield Finding("numpy", OK, f"numpy {probe.version} computes")


def _crashes_elsewhere(machine: Machine, version: str) -> bool:
    return version == CRASHES and machine.jetson


def onnxruntime(machine: Machine) -> Iterator[Finding]:
    probe, fix = machine.probes["onnxruntime"], _install(machine, "onnxruntime")
    engines = all(machine.probes[name].well for name in ("tensorrt", "pycuda"))
    worst = PROBLEM if engines else BLOCKS
    why = "the CPU runs bundles through it" + ("" if engines else ", and there is no GPU to do so")
    text = str(probe.found.get("text", "")) + probe.words
    if probe.well and probe.found.get("right"):
        yield Finding("onnxruntime", OK, f"onnxruntime {probe.version} runs a graph")
    elif machine.probes["numpy"].died and probe.died:
        yield Finding("onnxruntime", worst, _ended("onnxruntime", probe), "numpy dies, see there")
    elif "numpy.core.multiarray" in text or "_ARRAY_API" in text:
        version = machine.probes["numpy"].version
        yield Finding(
            "onnxruntime",
            worst,
            f"onnxruntime {probe.version} does not go with numpy {version}: {_last(text)}",
            "it imports without an error and fails at the first graph",
            machine.pip(f"--only-binary=:all: --no-deps {requirement(machine.kit, 'numpy')}"),
        )
    elif probe.died == "SIGABRT" and "DefaultLogger" in text:
        yield Finding(
            "onnxruntime",
            worst,
            "onnxruntime aborts: no default logger",
            "it does so where /sys is not mounted, as in a bare chroot",
            "sudo mount -t sysfs sys /sys",
        )
    elif probe.well:
        yield Finding(
            "onnxruntime", worst, f"onnxruntime {probe.version} computes wrongly", why, fix
        )
    else:
        yield Finding("onnxruntime", worst, _ended("onnxruntime", probe), why, fix)


def tensorrt(machine: Machine) -> Iterator[Finding]:
    probe, kit = machine.probes["tensorrt"], machine.kit
    why = "engines are built and run by it; without it bundles run on the CPU"
    if probe.well:
        yield _tensorrt_version(machine, probe)
    elif not machine.jetson:
        if not missing(probe, "tensorrt"):
            yield Finding("tensorrt module", PROBLEM, _ended("tensorrt", probe), why)
    elif missing(probe, "tensorrt"):
        installed = machine.glob("usr/lib/python3*/dist-packages/tensorrt")
        fix = "sudo apt install python3-libnvinfer"
        text = "the Python module tensorrt is not installed"
        if machine.container:
            text, fix = (
                text + " in this container",
                "see the mounts; docker/run.sh sets them",
            )
        elif installed and not _sees_system(machine):
            text = "tensorrt is installed for the system, and this venv does not see it"
            fix = f"{machine.python} -m venv --system-site-packages {_prefix(machine)}"
        elif installed and kit:
            text = f"tensorrt is installed for Python {kit.python}, not for this one"
            fix = f"python{kit.python} -m edgeformer doctor"
        yield Finding("tensorrt module", PROBLEM, text, why, fix)
    else:
        yield Finding("tensorrt module", PROBLEM, *_broken_tensorrt(machine, probe))


def _tensorrt_version(machine: Machine, probe: Probe) -> Finding:
    kit = machine.kit
    if kit and not any(same_release(probe.version, wanted) for wanted in kit.tensorrt):
        return Finding(
            "tensorrt module",
            PROBLEM,
            f"tensorrt {probe.version}, {probe.found.get('path')}; R{machine.l4t} has "
            + " or ".join(kit.tensorrt),
            "a release of L4T runs its own TensorRT only; pip's tensorrt is not for a Jetson",
            machine.pip("").replace(" install ", " uninstall tensorrt") + " && "
            "sudo apt install --reinstall python3-libnvinfer",
        )
    beside = ".".join(library(machine, "nvinfer")[0].split(".")[:3])
    if beside.count(".") == 2 and not same_release(probe.version, beside):
        return Finding(
            "tensorrt module",
            PROBLEM,
            f"tensorrt {probe.version} beside the library of {beside}",
            "an engine of the one is refused by the other, with an assertion about version tags",
            "sudo apt install --reinstall python3-libnvinfer libnvinfer-bin",
        )
    return Finding("tensorrt module", OK, f"tensorrt {probe.version}")


def _broken_tensorrt(machine: Machine, probe: Probe):
    wanted = re.search(r"(libn\w+)\.so\.(\d+)", str(probe.found.get("text", "")))
    here = library(machine, wanted.group(1)[3:])[0] if wanted else ""
    if wanted and here:
        return (
            f"the tensorrt module wants {wanted.group(0)}, and here is {wanted.group(1)} {here}",
            "image and host are of two releases of L4T, or two TensorRTs are mixed",
            "docker/run.sh takes the image of the host's release of L4T"
            if machine.container
            else "sudo apt install --reinstall nvidia-jetpack",
        )
    return (
        _ended("tensorrt", probe),
        "engines are built and run by it; without it bundles run on the CPU",
        "docker/run.sh, which starts the container with --runtime nvidia"
        if machine.container
        else "sudo apt install --reinstall python3-libnvinfer",
    )


def _sees_system(machine: Machine) -> bool:
    found = machine.probes["python"].found
    if found.get("prefix") == found.get("base"):
        return True
    try:
        with open(os.path.join(_prefix(machine), "pyvenv.cfg"), encoding="utf-8") as file:
            return bool(re.search(r"(?mi)^include-system-site-packages\s*=\s*true", file.read()))
    except OSError:
        return False


def _prefix(machine: Machine) -> str:
    return str(machine.probes["python"].found.get("prefix", ""))


def pycuda(machine: Machine) -> Iterator[Finding]:
    probe = machine.probes["pycuda"]
    text, fix = str(probe.found.get("text", "")), _install(machine, "pycuda")
    why = "engines get their memory through it; without it bundles run on the CPU"
    if probe.well:
        gpu = (
            f"{probe.found.get('gpu')}, compute capability {probe.found.get('compute_capability')}"
        )
        yield Finding("pycuda", OK, f"pycuda {probe.version} sees {gpu}")
    elif missing(probe, "pycuda") and not machine.jetson:
        return
    elif missing(probe, "pycuda"):
        pin = requirement(machine.kit, "pycuda")
        fix = f"bash jetson_setup.sh, which compiles {pin}"
        if machine.container:
            fix = f"docker/run.sh, whose images have {pin} or compile it at the first run"
        yield Finding("pycuda", PROBLEM, "pycuda is not installed", why, fix)
    elif "libcuda.so" in text:
        fix = "start the container with --runtime nvidia (not --gpus all)"
        yield Finding(
            "pycuda",
            PROBLEM if machine.jetson else NOTE,
            f"no CUDA driver: {_last(text)}",
            why,
            fix if machine.container else "",
        )
    elif "_driver" in text or "undefined symbol" in text or ".so." in text:
        fix = fix.replace(" install ", " install --force-reinstall --no-cache-dir ")
        yield Finding("pycuda", PROBLEM, f"built for another CUDA: {_last(text)}", why, fix)
    else:
        yield Finding("pycuda", PROBLEM if machine.jetson else NOTE, _ended("pycuda", probe), why)


def extras(machine: Machine) -> Iterator[Finding]:
    """What edgeformer can do without."""
    for name, why in (
        ("jinja2", "chat templates are written in it; generate without --chat needs none"),
        ("tokenizers", ""),
    ):
        probe = machine.probes[name]
        if probe.well and probe.found.get("right"):
            yield Finding(name, OK, f"{name} {probe.version}")
        elif missing(probe, name) and name == "tokenizers":
            yield Finding(name, OK, "not installed; edgeformer reads tokenizer.json itself")
        elif missing(probe, name):
            yield Finding(name, NOTE, f"{name} is not installed", why, _install(machine, name))
        else:
            text = why or "edgeformer does without; another program may not"
            yield Finding(name, NOTE, _ended(name, probe), text, _install(machine, name))


def _install(machine: Machine, package: str) -> str:
    pinned = requirement(machine.kit, package)
    if machine.kit is None:
        return machine.pip(package)
    binary = "" if package == "pycuda" else "--only-binary=:all: "
    return machine.pip(f"{binary}--no-deps {pinned}")


def _ended(name: str, probe: Probe) -> str:
    if probe.died == "timeout":
        return f"{name} did not answer within {probe.seconds:.0f} s"
    if probe.died == "SIGKILL":
        return f"{name} was killed: the kernel does that where memory ends"
    if probe.died:
        return f"{name} dies of {probe.died}" + (f": {_last(probe.words)}" if probe.words else "")
    if missing(probe, name):
        return f"{name} is not installed"
    return f"{name} fails: " + _last(str(probe.found.get("text", "")) or probe.words or "no answer")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
