"""Containers: what the NVIDIA runtime has put in, and what a Jetson has ready to be put in."""

import json
import os
from typing import Iterator

from edgeformer.device.doctor.findings import NOTE, OK, PROBLEM, Finding
from edgeformer.device.doctor.machine import Machine, library, numbers

DEVICES = ("dev/nvmap", "dev/nvhost-gpu", "dev/nvgpu")
LISTS = "etc/nvidia-container-runtime/host-files-for-container.d"
NEEDED = ("l4t.csv", "cuda.csv", "cudnn.csv", "tensorrt.csv")
ALL_LISTS = "docker run ... -e NVIDIA_REQUIRE_JETPACK=csv-mounts=all"
LISTS_END = (0, 11)  # libnvidia-container that reads l4t.csv, drivers.csv and devices.csv only
DEFAULT_RUNTIME = (
    '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "runtimeArgs": []}}, '
    '"default-runtime": "nvidia"}'
)


def container(machine: Machine) -> Iterator[Finding]:
    if machine.container:
        yield Finding("container", OK, "this is one")
        yield from _inside(machine)
    elif machine.jetson and os.path.exists(machine.path("usr/bin/docker")):
        yield from _outside(machine)


def _inside(machine: Machine) -> Iterator[Finding]:
    if not machine.jetson and machine.arch != "aarch64":
        return
    if not any(os.path.exists(machine.path(name)) for name in DEVICES):
        yield Finding(
            "mounts",
            PROBLEM if machine.jetson else NOTE,
            f"no GPU in this container: none of /{', /'.join(DEVICES)}",
            "on a Jetson the NVIDIA runtime puts it in; --gpus all is for other machines",
            "docker run --runtime nvidia ..., as docker/run.sh does",
        )
        return
    absent = [name for name in ("cudart", "cudnn", "nvinfer") if not library(machine, name)[0]]
    if absent and (machine.l4t or "").startswith("32."):
        yield Finding(
            "mounts",
            PROBLEM,
            f"the host's libraries are not all here: no lib{', no lib'.join(absent)}",
            "on R32 they come from the host's lists, and newer runtimes read three of them only; "
            "or the host itself has lost a list",
            f"{ALL_LISTS}; on the host: ls /{LISTS}",
        )
    elif absent:
        yield Finding(
            "mounts",
            PROBLEM,
            f"not in this image: lib{', lib'.join(absent)}",
            "from R35 on the image itself holds CUDA and TensorRT",
            "docker/run.sh takes an image that does; or take l4t-jetpack of the host's release",
        )
    else:
        yield Finding("mounts", OK, "GPU, CUDA, cuDNN and TensorRT are here")


def _outside(machine: Machine) -> Iterator[Finding]:
    if (machine.l4t or "").startswith("32."):
        lost = [n for n in NEEDED if not os.path.exists(machine.path(LISTS, n))]
        if lost:
            yield Finding(
                "container lists",
                PROBLEM,
                f"/{LISTS} lacks {', '.join(lost)}",
                "what they name is missing in every container: CUDA or TensorRT is not found",
                "sudo apt install --reinstall nvidia-container-csv-cuda nvidia-container-csv-cudnn "
                "nvidia-container-csv-tensorrt",
            )
        version = library(machine, "nvidia-container")[0]
        if version and numbers(version) >= LISTS_END:
            yield Finding(
                "container runtime",
                NOTE,
                f"libnvidia-container {version}",
                "from 0.11 on it leaves out CUDA and TensorRT unless it is asked",
                ALL_LISTS,
            )
    if _default_runtime(machine) != "nvidia":
        yield Finding(
            "docker",
            NOTE,
            "the default runtime is not nvidia",
            "docker build sees no CUDA, and a run needs --runtime nvidia",
            f"put {DEFAULT_RUNTIME} into /etc/docker/daemon.json; sudo systemctl restart docker",
        )


def _default_runtime(machine: Machine) -> str:
    try:
        found = json.loads(machine.text("etc/docker/daemon.json") or "{}")
    except ValueError:
        return ""
    return str(found.get("default-runtime", "")) if isinstance(found, dict) else ""
