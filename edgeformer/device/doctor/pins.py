"""Which versions belong together on a board; `jetson_setup.sh` has the same table in bash.

tests/device/doctor/test_pins.py holds the two against each other and both against requirements/.
Wheels of the packages exist for aarch64; that pycuda of this version compiles was seen on x86-64
for Python 3.6 only, never on a board by this project.
"""

from typing import Dict, NamedTuple, Optional, Tuple


class Kit(NamedTuple):
    """What JetPack brings, and what pip adds to it. `packages` are complete: `--no-deps`."""

    name: str
    releases: Tuple[str, ...]  # of L4T, by their first numbers
    python: str
    cuda: str
    cudnn: str
    tensorrt: Tuple[str, ...]
    pip: str
    packages: Dict[str, str]
    build: Dict[str, str]  # what compiles pycuda, installed first: never in pip's own isolation
    pycuda: Dict[str, str]  # pycuda and what it imports


KITS = (
    Kit(
        name="r32",
        releases=("32.6", "32.7"),
        python="3.6",
        cuda="10.2",
        cudnn="8.2",
        tensorrt=("8.2",),
        pip="21.3.1",
        packages={
            "numpy": "1.19.4",
            "flatbuffers": "2.0",
            "protobuf": "3.19.6",
            "typing_extensions": "4.1.1",
            "onnxruntime": "1.10.0",
            "tokenizers": "0.12.1",
            "MarkupSafe": "2.0.1",
            "Jinja2": "3.0.3",
        },
        build={"setuptools": "59.6.0", "wheel": "0.37.1"},
        pycuda={
            "six": "1.16.0",
            "dataclasses": "0.8",
            "appdirs": "1.4.4",
            "platformdirs": "2.4.0",
            "pytools": "2021.2.9",
            "pycuda": "2021.1",
        },
    ),
    Kit(
        name="r35",
        releases=("35",),
        python="3.8",
        cuda="11.4",
        cudnn="8.6",
        tensorrt=("8.4", "8.5"),
        pip="24.3.1",
        packages={
            "numpy": "1.23.5",  # TensorRT 8.5 uses np.bool, which 1.24 has no more
            "flatbuffers": "24.3.25",
            "protobuf": "5.29.6",
            "typing_extensions": "4.12.2",
            "onnxruntime": "1.19.2",
            "tokenizers": "0.20.3",
            "MarkupSafe": "2.1.5",
            "Jinja2": "3.1.6",
        },
        build={"setuptools": "75.3.0", "wheel": "0.45.1"},
        pycuda={"platformdirs": "4.3.6", "pytools": "2023.1.1", "pycuda": "2022.2.2"},
    ),
    Kit(
        name="r36",
        releases=("36",),
        python="3.10",
        cuda="12",
        cudnn="",  # 8.9 or 9.3
        tensorrt=("8.6", "10.3"),
        pip="25.0.1",
        packages={
            "numpy": "1.26.4",
            "flatbuffers": "25.12.19",
            "protobuf": "7.36.2",
            "typing_extensions": "4.16.0",
            "onnxruntime": "1.23.2",
            "tokenizers": "0.23.3",
            "MarkupSafe": "3.0.4",
            "Jinja2": "3.1.6",
            "llguidance": "1.9.1",  # for --regex; on older Pythons edgeformer does it itself
        },
        build={"setuptools": "75.8.0", "wheel": "0.45.1"},
        pycuda={"platformdirs": "4.3.6", "pytools": "2024.1.14", "pycuda": "2024.1.2"},
    ),
)


def kit_for(l4t: Optional[str]) -> Optional[Kit]:
    """The kit of an L4T release such as 32.7.4; None where we know none, and guess none."""
    for kit in KITS:
        if l4t and any((l4t + ".").startswith(release + ".") for release in kit.releases):
            return kit
    return None


def requirement(kit: Optional[Kit], package: str) -> str:
    """`numpy==1.19.4` where the board is known, else the name."""
    if kit is None:
        return package
    version = {**kit.packages, **kit.pycuda, "pip": kit.pip}.get(package)
    return f"{package}=={version}" if version else package
