"""The steps of docker/Dockerfile.*, run for real without Docker, on this machine's own Pythons.

Every RUN and COPY up to the finished environment is done in a folder that stands for /opt, but for
apt's and useradd's. CUDA is NVIDIA's headers from a wheel and a stand-in for the driver; boards'
processors are left to `pip download`. Needs a network.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import matrix
from tests.docker import dockerfile

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = {"r32": "3.6", "r35": "3.8", "r36": "3.10", "pc": "3.13"}
HEADERS = {
    "r32": "nvidia-cuda-runtime-cu11==11.7.99",  # there is no wheel of CUDA 10.2
    "r35": "nvidia-cuda-runtime-cu11==11.7.99",
    "r36": "nvidia-cuda-runtime-cu12==12.6.77",
}
# The one header that pycuda includes and the wheel leaves out.
PROFILER = """#include <cuda.h>
#ifdef __cplusplus
extern "C" {
#endif
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
typedef enum { CU_OUT_KEY_VALUE_PAIR, CU_OUT_CSV } CUoutput_mode;
CUresult cuProfilerInitialize(const char *, const char *, CUoutput_mode);
#ifdef __cplusplus
}
#endif
"""
LEFT_OUT = ("apt-get ", "useradd ", "rm -rf /var/lib/apt", "test -d /usr/lib/python")
GPU = "import pycuda.driver as d; d.init(); print(d.Device(0).name())"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    made = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "edgeformer", source / "edgeformer")
    shutil.copytree(ROOT / "tests/data/tiny-rope", made / "tiny-rope")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(made), str(source)], check=True)
    (path,) = made.glob("*.whl")
    return path


def cuda(folder, kind):
    """A folder like /usr/local/cuda, with a driver that has one GPU on host memory."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps"]
    command = [*pip, "--only-binary=:all:", "--target", str(folder), HEADERS[kind]]
    subprocess.run(command, check=True)
    home = folder / "nvidia/cuda_runtime"
    (home / "include/cudaProfiler.h").write_text(PROFILER)
    (home / "version.txt").write_text("CUDA Version 10.2.300\n")
    stubs = home / "lib64/stubs"
    stubs.mkdir(parents=True)
    source, made = ROOT / "tests/standin/libcuda.c", stubs / "libcuda.so"
    soname = "-Wl,-soname,libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", soname, "-o", made, source], check=True)
    (stubs / "libcuda.so.1").symlink_to(made)
    return home


class Image:
    """What an image would hold, in a folder: `opt` is its /opt."""

    def __init__(self, kind, folder, wheel):
        self.kind, self.folder, self.wheel = kind, folder, wheel
        self.python = matrix.interpreter(PYTHONS[kind])
        assert self.python, "NOT RUN: there is no Python %s here" % PYTHONS[kind]
        self.opt, self.cuda = folder / "opt", None
        if kind != "pc":
            self.cuda = cuda(folder / "cuda", kind)

    def build(self):
        for word, text in dockerfile.instructions(self.kind):
            if word == "COPY" and not text.startswith("--"):
                self.copy(text.split())
            elif word == "RUN":
                parts = [part for part in text.split(" && ") if not part.startswith(LEFT_OUT)]
                parts = [part for part in parts if not part.startswith(("mkdir /", "chmod 1777"))]
                if parts:
                    self.run(" && ".join(parts))
        return self

    def copy(self, words):
        target = Path(self.here(words[-1]))
        target.mkdir(parents=True, exist_ok=True)
        for source in words[:-1]:
            shutil.copy(self.wheel if source.startswith("dist/") else ROOT / source, target)

    def here(self, text):
        text = text.replace("/usr/local/cuda", str(self.cuda)).replace("/opt/", "%s/" % self.opt)
        for name in ("python3 -m venv", "python -m venv"):
            if text.startswith(name):
                return text.replace(name, self.python + " -m venv", 1)
        return text

    def run(self, text, **environment):
        own = {"HOME": str(self.folder), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "PIP_FIND_LINKS"):
            if name in os.environ:
                own[name] = os.environ[name]
        own.update(environment)
        done = subprocess.run(
            ["bash", "-c", "set -e -o pipefail; " + self.here(text)],
            cwd=self.folder,
            env=own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=3000,
        )
        output = done.stdout.decode("utf-8")
        assert done.returncode == 0, "%s\n%s" % (text, output[-3000:])
        return output

    def started(self, *words):
        """What the image prints when it is started with WORDS."""
        (entry,) = dockerfile.of(self.kind, "ENTRYPOINT")
        command = entry.strip("[]").replace('", "', " ").replace('"', "")
        environment = dockerfile.environment(self.kind)
        if self.cuda:
            environment["LD_LIBRARY_PATH"] = str(self.cuda / "lib64/stubs")
            environment["EDGEFORMER_CUDA"] = str(self.cuda)
        environment["EDGEFORMER_PREFIX"] = str(self.opt / "edgeformer")
        environment["EDGEFORMER_CACHE"] = str(self.folder)
        return self.run(command + " " + " ".join(words), **environment)

    def health(self):
        (check,) = dockerfile.of(self.kind, "HEALTHCHECK")
        command = check.split("CMD ")[1].strip("[]").replace('", "', " ").replace('"', "")
        return self.run(command, **dockerfile.environment(self.kind))


BUILT = [
    kind
    if kind not in HEADERS
    else pytest.param(
        kind,
        marks=pytest.mark.skipif(
            "EDGEFORMER_IMAGES" not in os.environ, reason="compiles pycuda: make test-images"
        ),
    )
    for kind in dockerfile.KINDS
]


@pytest.mark.parametrize("kind", BUILT)
def test_the_steps_of_a_dockerfile_make_an_environment_that_runs_bundles(kind, wheel, tmp_path):
    assert_it_runs_bundles(Image(kind, tmp_path, wheel).build())


def assert_it_runs_bundles(image):
    kind, tiny = image.kind, str(image.wheel.parent / "tiny-rope")
    assert image.health() == ""
    output = image.started("generate", tiny, "abc", "--temperature", "0", "--backend", "ort")
    assert "tokens/s" in output, output
    config = (image.opt / "edgeformer/pyvenv.cfg").read_text()
    assert ("include-system-site-packages = true" in config) == (kind != "pc")
    pip = list(image.opt.glob("edgeformer/lib/python3*/site-packages/pip/__init__.py"))
    assert bool(pip) == (kind == "r32")  # which compiles pycuda later
    if kind in ("r36", "pc"):  # by llguidance there
        assert "abc" in image.started("generate", tiny, "x", "--regex", "abc", "--backend", "ort")
    built = image.folder / "pycuda-2021.1-cuda10.2.300"
    assert built.is_dir() == (kind == "r32")
    if kind == "r32":
        assert "compiling pycuda" in output
        assert "compiling" not in image.started("doctor")
    if kind != "pc":
        path = {"PYTHONPATH": str(built), "LD_LIBRARY_PATH": str(image.cuda / "lib64/stubs")}
        told = image.run("/opt/edgeformer/bin/python -c '%s'" % GPU, **path)
        assert told.strip() == "Stand-in GPU"


PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_27")
NEWER = ("manylinux_2_28", "manylinux_2_31")


@pytest.mark.parametrize("kind", dockerfile.KINDS)
def test_a_boards_processor_has_a_wheel_of_every_pin(kind, tmp_path):
    """glibc: 2.27 of Ubuntu 18.04 for r32; the others have 2.31 and newer."""
    version = PYTHONS[kind].replace(".", "")
    options = ["--python-version", version, "--implementation", "cp"]
    for platform in PLATFORMS + (() if kind == "r32" else NEWER):
        options += ["--platform", platform + "_aarch64"]
    for abi in ("cp36m" if kind == "r32" else "cp" + version, "abi3", "none"):
        options += ["--abi", abi]
    pins = ROOT / ("docker/%s.txt" % kind)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download"]
    command = [*pip, "--only-binary=:all:", "--no-deps", *options, "-d", str(tmp_path)]
    subprocess.run([*command, "-r", str(pins)], check=True)
    wanted = [line for line in pins.read_text().splitlines() if "==" in line]
    assert len(list(tmp_path.iterdir())) == len(wanted) >= 7
