"""What each target can do and how much it has, every fact beside the public page that states it.

Memory is in MiB. Where a number was worked out from others, `note` says how. Nothing here was
measured on a board by this project.
"""

import os
import platform
import re
from typing import Dict, NamedTuple, Optional, Tuple, Union

from edgeformer.errors import EdgeformerError

NO_PAGE = "no public page: "  # a source that is a log line somebody posted without an address

_ORT = "https://github.com/microsoft/onnxruntime/"
_SETUP = "https://github.com/dusty-nv/jetson-containers/blob/master/docs/setup.md"
_PARSER = "https://github.com/onnx/onnx-tensorrt/blob/"
_STATS = "https://github.com/rbonghi/jetson_stats/blob/master/jtop/core/jetson_variables.py"
_MEM_BENCH = "https://github.com/jetsonhacks/jetson-mem-bench"


class Fact(NamedTuple):
    """A number and where it is stated."""

    value: Union[int, float]
    source: str
    note: str = ""


class Parser(NamedTuple):
    """The ONNX parser of one TensorRT generation."""

    version: str  # its column in the exporter's table of operators
    title: str
    opset: Fact  # the newest that is documented
    ir: Fact  # the parser only warns beyond it
    native_int64: bool  # else INT64 becomes INT32
    native_bfloat16: bool
    functions: bool  # a model's own functions


PARSERS = (
    Parser(
        "8.2",
        "8.2",
        Fact(13, _PARSER + "release/8.2-GA/docs/operators.md"),
        Fact(8, _ORT + "releases/tag/v1.10.0", "the Nano's newest onnxruntime ends at IR 8"),
        native_int64=False,
        native_bfloat16=False,
        functions=False,
    ),
    Parser(
        "8.5",
        "8.5",
        Fact(17, _PARSER + "release/8.5-GA/docs/operators.md"),
        Fact(8, _PARSER + "release/8.6-GA/docs/Changelog.md", "built with ONNX 1.12"),
        native_int64=False,
        native_bfloat16=False,
        functions=False,
    ),
    Parser(
        "8.6",
        "8.6",
        Fact(17, _PARSER + "release/8.6-GA/docs/operators.md"),
        Fact(8, _PARSER + "release/8.6-GA/docs/Changelog.md", "built with ONNX 1.13.1"),
        native_int64=False,
        native_bfloat16=False,
        functions=False,
    ),
    Parser(
        "10.1",
        "10",
        Fact(20, _PARSER + "release/10.1-GA/docs/operators.md"),
        Fact(9, _PARSER + "release/10.1-GA/docs/Changelog.md", "at least ONNX 1.14, that of 9.0"),
        native_int64=True,
        native_bfloat16=True,
        functions=True,
    ),
)


class Release(NamedTuple):
    """Which TensorRT a JetPack brings."""

    jetpack: str
    tensorrt: str
    cuda: str
    python: str


class Board(NamedTuple):
    """One memory size of a target. GB/s and MiB."""

    memory: Fact  # as Linux sees it
    used_headless: Fact  # by the system, without a desktop
    used_desktop: Fact
    bandwidth_nominal: Fact
    bandwidth_seen: Fact


class Target(NamedTuple):
    """A device class. `boards` is by memory size; the first is the one meant without a suffix."""

    name: str
    title: str
    compute_capability: Optional[Tuple[int, int]]  # None: no GPU
    compute_source: str
    releases: Tuple[Release, ...]
    release_source: str
    precisions: Tuple[str, ...]
    refused: Dict[str, str]  # precision -> why, what to do instead
    boards: Dict[str, Board]


NANO_NO_INT8 = (
    "the Jetson Nano's GPU (compute capability 5.3) has no INT8: TensorRT only warns about its "
    "INT8 flag and gives an engine no better than FP16 (users measured 44 against 90 frames a "
    "second, https://github.com/NVIDIA-AI-IOT/torch2trt/issues/255), and it stops at a graph with "
    "QuantizeLinear nodes (https://github.com/NVIDIA/TensorRT/issues/3157); use --precision fp16, "
    "the board's fast path, or export --precision int8-dynamic and run that on its CPU"
)

_NANO_HEADLESS = Fact(500, _ORT + "issues/4259", "300 to 500 with a console only")
_NANO_BANDWIDTH = Fact(25.6, "https://cfanz.cn/resource/detail/nlwoMoMrjrkMn")
_NANO_SEEN = Fact(
    18.0,
    NO_PAGE + "a trtexec log of a Nano",
    "worked out: 4,915,200 bytes copied to the device in 0.545 ms are read and written once",
)
_ORIN_DESKTOP = Fact(
    2147,
    "https://github.com/lkk688/edgeAI/blob/main/docs/curriculum/00_sjsujetsontool_guide.md",
    "a tegrastats line with 1476 MiB more in swap",
)
_ORIN_HEADLESS = Fact(
    1347, _SETUP, "worked out: a desktop costs about 800 of the 2147 that one uses with it"
)

TARGETS: Dict[str, Target] = {
    "jetson-nano": Target(
        "jetson-nano",
        "Jetson Nano",
        (5, 3),
        "https://gist.github.com/r7vme/45ad34e9c2e8d8cd1c01d94975ee6bee",
        (
            Release("4.6", "8.0.1", "10.2", "3.6"),
            Release("4.6.1 to 4.6.6", "8.2.1", "10.2", "3.6"),
        ),
        _STATS,
        ("fp32", "fp16"),
        {"int8": NANO_NO_INT8},
        {
            "4gb": Board(
                Fact(3956, "https://cfanz.cn/resource/detail/nlwoMoMrjrkMn"),
                _NANO_HEADLESS,
                Fact(1500, _ORT + "issues/4259", "with the desktop that JetPack installs"),
                _NANO_BANDWIDTH,
                _NANO_SEEN,
            ),
            "2gb": Board(
                Fact(1980, "https://github.com/roflcoopter/viseron/issues/108"),
                _NANO_HEADLESS,
                Fact(750, _SETUP, "worked out: console plus about 250 for LXDE"),
                _NANO_BANDWIDTH,
                _NANO_SEEN,
            ),
        },
    ),
    "jetson-orin-nano": Target(
        "jetson-orin-nano",
        "Jetson Orin Nano",
        (8, 7),
        "https://github.com/hokwangchoi/jetson-orin-nano-benchmarks",
        (
            Release("5.1", "8.5.2", "11.4", "3.8"),
            Release("6.0", "8.6.2", "12.2", "3.10"),
            Release("6.1 to 6.2.2", "10.3", "12.6", "3.10"),
        ),
        _STATS,
        ("fp32", "fp16", "int8"),
        {},
        {
            "8gb": Board(
                Fact(7620, "https://github.com/henrygd/beszel/blob/main/agent/gpu_test.go"),
                _ORIN_HEADLESS,
                _ORIN_DESKTOP,
                Fact(68, _MEM_BENCH, "102 in the Super modes"),
                Fact(48, _MEM_BENCH, "worked out: 60 to 80 % of nominal, 70 % taken"),
            ),
            "4gb": Board(
                Fact(3602, NO_PAGE + "a tegrastats line of an Orin Nano 4GB"),
                _ORIN_HEADLESS,
                _ORIN_DESKTOP,
                Fact(34, _MEM_BENCH, "half of the 8 GB board's; 51 in the Super modes"),
                Fact(24, _MEM_BENCH, "worked out: 60 to 80 % of nominal, 70 % taken"),
            ),
        },
    ),
    "cpu": Target("cpu", "any CPU", None, "", (), "", ("fp32",), {}, {}),
}


def parser_for(version: str) -> Parser:
    """The newest parser of the table that a TensorRT version is at least as new as."""
    if not re.match(r"\d{1,4}(\.\d{1,9}){0,3}\Z", version, re.ASCII):
        raise EdgeformerError(f"{version[:40]!r} is not a TensorRT version, such as 8.2 or 10.3")
    numbers = tuple(int(part) for part in version.split("."))
    if numbers == (8,):
        raise EdgeformerError("TensorRT 8 is several parsers: say 8.2, 8.4, 8.5 or 8.6")
    found = None
    for parser in PARSERS:
        if numbers >= tuple(int(part) for part in parser.title.split(".")):
            found = parser
    if found is None:
        raise EdgeformerError(
            f"TensorRT {version} is older than the tables of operators, which begin at 8.2; "
            "JetPack 4.6.1 and newer bring 8.2.1"
        )
    return found


def target_named(text: str) -> Tuple[Target, str]:
    """(target, memory size) of `jetson-nano`, `jetson-nano-2gb` ...; the size is "" for `cpu`."""
    name, _, size = text.rpartition("-")
    if text in TARGETS:
        name, size = text, next(iter(TARGETS[text].boards), "")
    elif name not in TARGETS or size not in TARGETS[name].boards:
        known = list(TARGETS)
        known += [f"{name}-{size}" for name in TARGETS for size in TARGETS[name].boards]
        raise EdgeformerError(f"no target is called {text[:60]!r}; choose {', '.join(known)}")
    return TARGETS[name], size


def parser_of_target(target: Target) -> Parser:
    """The oldest parser that the target's TensorRT releases need; what it takes, all take."""
    parsers = [parser_for(r.tensorrt) for r in target.releases if r.tensorrt != "8.0.1"]
    if not parsers:
        raise EdgeformerError(f"target {target.name} has no TensorRT; choose another --target")
    return parsers[0]


def device_tree(root: str = "/") -> str:
    """The folder where the kernel names the board. Docker hides it from containers; docker/run.sh
    hands in a copy of its two names."""
    handed = os.path.join(root, "run/edgeformer/device-tree")
    kernels = os.path.join(root, "proc/device-tree")
    known = os.path.exists(os.path.join(kernels, "compatible"))
    return handed if os.path.isdir(handed) and not known else kernels


def this_board(folder: Optional[str] = None) -> str:
    """The target of the machine that runs this, or "" where it is none of ours."""
    try:
        with open(os.path.join(folder or device_tree(), "compatible"), "rb") as file:
            words = file.read(4096).lower()
    except OSError:
        return ""
    if b"tegra210" in words:
        return "jetson-nano"
    return "jetson-orin-nano" if b"p3767" in words else ""


def processor(path: str = "/proc/cpuinfo") -> str:
    """The processor's own name where Linux tells it, else the kind of machine."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("model name", "Model"):
                    return value.strip()
    except OSError:
        pass
    return platform.machine()


def memory_available(path: str = "/proc/meminfo") -> int:
    """Bytes that can be had now: on a board with shared memory page cache counts, CUDA's free
    memory leaves it out."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(1 << 16)
    except OSError as error:
        raise EdgeformerError(
            f"{path} cannot be read ({error.strerror}); use --memory MB"
        ) from None
    found = re.search(r"^MemAvailable:\s+(\d{1,15}) kB$", text, re.MULTILINE)
    if found is None:
        raise EdgeformerError(f"{path} does not tell MemAvailable; use --memory MB")
    return int(found.group(1)) << 10
