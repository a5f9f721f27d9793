"""Which machine this is: board, release, and what JetPack put on it."""

import os
import re
from typing import Iterator, List

from edgeformer.device.doctor.findings import NOTE, OK, PROBLEM, Finding
from edgeformer.device.doctor.machine import Machine, library, same_release
from edgeformer.device.doctor.pins import KITS
from edgeformer.targets import processor

CUDA_PATHS = (
    "export PATH=/usr/local/cuda/bin:$PATH CPATH=/usr/local/cuda/include "
    "LIBRARY_PATH=/usr/local/cuda/lib64"
)


def board(machine: Machine) -> Iterator[Finding]:
    found = machine.board
    if found is None and machine.l4t is None:
        name = processor(machine.path("proc/cpuinfo"))
        text = f"no Jetson: {machine.arch}, {name}; bundles run on its CPU here"
        yield Finding("board", OK, text)
    elif found is None:
        yield Finding(
            "board",
            NOTE,
            "a container that does not show which Jetson it is on",
            "Docker hides /proc/device-tree; checks that depend on the board are left out",
            "start it with docker/run.sh, or run doctor outside the container as well",
        )
    elif found.target is None:
        yield Finding(
            "board",
            NOTE,
            f"{found.model}: a Jetson that edgeformer has no facts about",
            "what is said here of memory and power is of other boards",
        )
    else:
        yield Finding("board", OK, found.model)


def release(machine: Machine) -> Iterator[Finding]:
    """L4T and JetPack."""
    if not machine.jetson:
        return
    if machine.l4t is None:
        yield Finding(
            "L4T",
            PROBLEM,
            "/etc/nv_tegra_release does not tell the release",
            "which CUDA, TensorRT and Python belong together is known by release",
            "cat /etc/nv_tegra_release; flash a JetPack image if that file is not there",
        )
        return
    jetpack = machine.board.jetpack if machine.board else None
    text = f"R{machine.l4t}" + (f", JetPack {jetpack}" if jetpack else "")
    if machine.kit is None:
        known = ", ".join("R" + release for kit in KITS for release in kit.releases)
        yield Finding(
            "L4T",
            NOTE,
            f"{text}: not a release that edgeformer knows ({known})",
            "no versions are suggested for it; engines and bundles may run all the same",
        )
    elif machine.l4t.startswith("32.6"):
        yield Finding(
            "L4T",
            PROBLEM,
            f"{text} brings TensorRT 8.0.1",
            "engines need 8.2: 8.0 has no way to keep chosen layers in FP32",
            "sudo apt update && sudo apt dist-upgrade, after pointing "
            "/etc/apt/sources.list.d/nvidia-l4t-apt-source.list to r32.7",
        )
    else:
        yield Finding("L4T", OK, text)


def cuda(machine: Machine) -> Iterator[Finding]:
    version = _cuda_version(machine)
    if not version:
        if machine.jetson and not machine.container:  # of containers, `mounts` tells more
            yield Finding(
                "CUDA",
                PROBLEM,
                "/usr/local/cuda is not there",
                "engines are built and run with it; bundles on the CPU do without",
                "sudo apt install nvidia-jetpack",
            )
        return
    wanted = machine.kit.cuda if machine.kit else version
    if not same_release(version, wanted):
        yield Finding(
            "CUDA",
            PROBLEM,
            f"CUDA {version}, where R{machine.l4t} has {wanted}",
            "a Jetson's driver belongs to its release: another CUDA finds no device",
            f"sudo ln -sfn /usr/local/cuda-{wanted} /usr/local/cuda",
        )
        return
    here = machine.environment.get("PATH", "").split(":")
    nvcc = machine.jetson and os.path.exists(machine.path("usr/local/cuda/bin/nvcc"))
    if nvcc and not any(re.match(r"/usr/local/cuda[^/]*/bin/?\Z", folder) for folder in here):
        yield Finding(
            "CUDA",
            NOTE,
            f"CUDA {version}; nvcc is not on PATH",
            "building pycuda stops with 'nvcc not in path' or 'cuda.h: No such file'",
            CUDA_PATHS,
        )
        return
    yield Finding("CUDA", OK, f"CUDA {version}")


def _cuda_version(machine: Machine) -> str:
    for path, pattern in (
        ("usr/local/cuda/version.json", r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"(\d+[\d.]*)"'),
        ("usr/local/cuda/version.txt", r"CUDA Version (\d+[\d.]*)"),
    ):
        found = re.search(pattern, machine.text(path))
        if found:
            return found.group(1)
    target = machine.path("usr/local/cuda")
    found = re.search(r"cuda-(\d+\.\d+)/?\Z", os.path.realpath(target))
    return found.group(1) if found and os.path.isdir(target) else ""


def libraries(machine: Machine) -> Iterator[Finding]:
    """cuDNN and TensorRT as files; whether Python can have TensorRT is another check."""
    kit = machine.kit
    wanted = {"cuDNN": (kit.cudnn,) if kit else (), "TensorRT": kit.tensorrt if kit else ()}
    for topic, name in (("cuDNN", "cudnn"), ("TensorRT", "nvinfer")):
        version, empty = library(machine, name)
        if empty and not version:
            yield _stub(topic, empty)
        elif version:
            right = [w for w in wanted[topic] if same_release(version, w)]
            if any(wanted[topic]) and not right:
                yield Finding(
                    f"{topic} library",
                    PROBLEM,
                    f"{topic} {version}, where R{machine.l4t} has {' or '.join(wanted[topic])}",
                    "NVIDIA builds it for one release of L4T; mixed ones fail when an engine loads",
                    "sudo apt install --reinstall nvidia-jetpack",
                )
            else:
                yield Finding(f"{topic} library", OK, f"{topic} {version}")
        elif machine.jetson and not machine.container:
            yield Finding(
                f"{topic} library",
                PROBLEM,
                f"lib{name} is not there",
                "engines are built and run with it; bundles on the CPU do without",
                "sudo apt install nvidia-jetpack",
            )


def _stub(topic: str, empty: List[str]) -> Finding:
    return Finding(
        f"{topic} library",
        PROBLEM,
        f"{os.path.basename(empty[0])} has no bytes",
        "images for L4T R32 hold empty files, which the NVIDIA runtime puts the host's over",
        "start the container with --runtime nvidia",
    )
