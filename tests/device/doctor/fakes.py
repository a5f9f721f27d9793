"""Machines for the doctor: trees of files, and interpreters that answer as libraries would."""

import json
import os
import stat

from edgeformer.device.doctor import examine
from edgeformer.device.doctor.probes import MARK, Probe, run_all
from tests.device import boards

GIB = 1 << 30
LIB = "usr/lib/aarch64-linux-gnu/"
NANO_GPU = {"version": "2021.1", "gpu": "NVIDIA Tegra X1", "compute_capability": "5.3"}
ORIN_GPU = {"version": "2024.1.2", "gpu": "Orin", "compute_capability": "8.7"}
PATH = "/usr/local/cuda/bin:" + os.environ.get("PATH", "")


def telling(**answer):
    return answer


def answers(release="3.6.9", arch="aarch64", **changes):
    """What each probe of a Nano in good order answers; a value that is text is shell."""
    good = {
        "python": telling(
            version=release, arch=arch, executable="/venv/bin/python", prefix="/venv", base="/usr"
        ),
        "pip": telling(version="21.3.1"),
        "numpy": telling(version="1.19.4", path="/venv/numpy/__init__.py", right=True),
        "onnxruntime": telling(version="1.10.0", right=True),
        "tensorrt": telling(version="8.2.1.8", path="/usr/lib/python3.6/dist-packages/tensorrt"),
        "pycuda": NANO_GPU,
        "tokenizers": telling(version="0.12.1", right=True),
        "jinja2": telling(version="3.0.3", right=True),
    }
    return dict(good, **changes)


def absent(name):
    """An answer: this module is not installed."""
    text = "No module named '%s'" % name
    return telling(error="ModuleNotFoundError", text=text, module=name)


def fails(text, error="ImportError", **more):
    return telling(error=error, text=text, module=None, **more)


def interpreter(folder, told):
    """A program that takes `-c CODE` and answers by the module that the code imports first."""
    lines = ["#!/bin/sh", 'case "$2" in']
    marks = {"python": "platform.python_version", "onnxruntime": "import base64, onnxruntime"}
    for name in sorted(told, key=lambda n: n not in marks):
        answer = told[name]
        if isinstance(answer, dict):
            answer = "cat <<'END'\n%s%s\nEND\n" % (MARK, json.dumps(answer))
        lines += ["*'%s'*)" % marks.get(name, "import %s" % name), answer, ";;"]
    path = boards.write(folder, "python", "\n".join(lines + ["esac", ""]))
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return [path]


def found(root, told, bundle=None, path=PATH, free=20 * GIB, tegrastats=None, **environment):
    """The doctor's findings of a machine, looked at as `path` and more are set."""

    def probed(environment, at_once):
        if all(isinstance(answer, dict) for answer in told.values()):
            return {name: Probe(answer, "", "", 0.1) for name, answer in told.items()}
        python = interpreter(str(root).rstrip("/") + ".python", told)
        return run_all(python, environment, at_once)

    environment["PATH"] = path
    return examine(bundle, str(root), environment, lambda _: free, tegrastats, probed)


def of(findings, topic):
    return [finding for finding in findings if finding.topic == topic]


def nano(root):
    """A 4 GB Nano with JetPack 4.6.4, headless, with a swap file, as jetson_setup.sh leaves it."""
    boards.nano(root)
    release = "# R32 (release), REVISION: 7.4, GCID: 33514132, BOARD: t210ref, EABI: aarch64\n"
    boards.write(root, "etc/nv_tegra_release", release)
    boards.write(root, "proc/swaps", swaps(("/swapfile", 4 * GIB)))
    boards.write(root, "usr/local/cuda/version.txt", "CUDA Version 10.2.300\n")
    boards.write(root, "usr/local/cuda/bin/nvcc", "")
    libraries(root, cudnn="8.2.1", nvinfer="8.2.1")
    boards.write(root, "sys/devices/system/cpu/offline", "\n")
    return str(root)


def orin_nano(root, release="4.3"):
    """An Orin Nano with JetPack 6.2 at its fastest."""
    boards.orin_nano(root)
    text = "# R36 (release), REVISION: %s, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
    boards.write(root, "etc/nv_tegra_release", text % release)
    boards.write(root, "var/lib/nvpmodel/status", "pmode:0002\n")
    boards.write(root, boards.ORIN_GPU + "min_freq", "918000000")
    for core in range(6):
        low = "sys/devices/system/cpu/cpu%d/cpufreq/scaling_min_freq" % core
        boards.write(root, low, "1344000")
        boards.write(root, low.replace("min", "cur"), "1344000")
    boards.write(root, boards.ORIN_GPU + "cur_freq", "918000000")
    boards.write(root, "proc/swaps", swaps(("/swapfile", 8 * GIB)))
    version = '{"cuda": {"name": "CUDA SDK", "version": "12.6.11"}}'
    boards.write(root, "usr/local/cuda/version.json", version)
    libraries(root, cudnn="9.3.0", nvinfer="10.3.0")
    return str(root)


def orin_answers(**changes):
    return answers(
        release="3.10.12",
        numpy=telling(version="1.26.4", path="/venv/numpy", right=True),
        onnxruntime=telling(version="1.23.2", right=True),
        tensorrt=telling(version="10.3.0", path="/usr/lib/python3.10/dist-packages/tensorrt"),
        pycuda=ORIN_GPU,
        **changes,
    )


def libraries(root, **versions):
    for name, version in versions.items():
        boards.write(root, "%slib%s.so.%s" % (LIB, name, version), "x")
        boards.write(root, "%slib%s.so.%s" % (LIB, name, version.split(".")[0]), "x")


def swaps(*spaces):
    lines = ["Filename\tType\tSize\tUsed\tPriority"]
    lines += ["%s partition %d 0 5" % (name, size >> 10) for name, size in spaces]
    return "\n".join(lines) + "\n"


def container(root):
    """A container that the NVIDIA runtime has put a Nano's libraries into."""
    nano(root)
    boards.write(root, ".dockerenv", "")
    boards.write(root, "dev/nvmap", "")
    libraries(root, cudart="10.2.300")
    return str(root)


def remove(root, path):
    os.remove(os.path.join(str(root), path))
