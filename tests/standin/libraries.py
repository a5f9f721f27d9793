"""The stand-ins in this process: compiled, loaded before NVIDIA's bindings, and asked questions."""

import ctypes
import importlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = "host" if sys.version_info >= (3, 10) else "py36"
INSTALLED = os.path.join(ROOT, ".venv-standin", PYTHON)

# Bindings that the tests drive, and of these 8.6.1 also with the names alone that 8.2.1 has.
AS_821 = "8.6.1-as-8.2.1"
VARIABLE = "EDGEFORMER_STANDIN"  # the release that this run of pytest drives
# For processes of their own: bundles whose engines ONNX Runtime shall compute there, and one
# output of theirs that shall come out wrong.
COMPUTE, WRONG = VARIABLE + "_COMPUTE", VARIABLE + "_WRONG"

EXECUTOR = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_char_p),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_longlong),
    ctypes.POINTER(ctypes.c_int),
)


def releases():
    """What is installed for this Python, in the order in which it is run."""
    folders = sorted(os.listdir(INSTALLED)) if os.path.isdir(INSTALLED) else []
    found = [name[len("tensorrt-") :] for name in folders if name.startswith("tensorrt-")]
    return ([AS_821] if "8.6.1" in found else []) + found


def compile_all(family, folder):
    """The stand-ins of one family, in a folder: libcuda, libnvinfer and the empty rest."""
    inference = "libnvinfer.so.%s" % family
    flags = ["-DFAMILY=%s" % family, "-Wno-unused-function"]
    _compile(["libcuda.c"], folder, "libcuda.so.1", [])
    flags += ["-L" + folder, "-Wl,--no-as-needed", "-l:libcuda.so.1"]
    _compile(["libnvinfer.c", "builder.c"], folder, inference, flags)
    for name in ("libnvonnxparser", "libnvinfer_plugin", "libnvparsers"):
        _compile(["/dev/null"], folder, "%s.so.%s" % (name, family), [])


def _compile(sources, folder, name, flags):
    command = ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += flags + ["-Wl,-soname," + name, "-o", os.path.join(folder, name), "-x", "c"]
    command += [os.path.join(HERE, source) for source in sources]
    subprocess.run(command + ["-lpthread"], check=True, timeout=120)


class Standin:
    """The loaded stand-ins; numbers and faults that tests look at."""

    def __init__(self, folder, family):
        def load(name):
            return ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)

        self.cuda = load("libcuda.so.1")
        self.inference = load("libnvinfer.so.%s" % family)
        for name in ("libnvonnxparser", "libnvinfer_plugin", "libnvparsers"):
            load("%s.so.%s" % (name, family))
        self.cuda.standin_fault_text.restype = ctypes.c_char_p
        self.cuda.standin_used_memory.restype = ctypes.c_size_t
        for name in ("synchronizes", "launches", "transfers", "allocations"):
            getattr(self.cuda, "standin_" + name).restype = ctypes.c_long
        self.inference.standin_enqueues.restype = ctypes.c_long

    def fault(self):
        """The first rule that was broken since the last call, or ""."""
        text = self.cuda.standin_fault_text().decode("ascii", "replace")
        self.cuda.standin_forget_fault()
        return text

    def count(self, what):
        library = self.inference if what == "enqueues" else self.cuda
        return getattr(library, "standin_" + what)()

    def used_memory(self):
        return self.cuda.standin_used_memory()

    def depth(self):
        """Contexts on the stack of this thread."""
        return self.cuda.standin_depth()

    def set_memory(self, size):
        self.cuda.standin_set_memory(ctypes.c_size_t(size))

    def set_device(self, present):
        self.cuda.standin_set_device(int(present))

    def set_capability(self, number):
        """Compute capability of the GPU, as 87."""
        self.cuda.standin_set_capability(number)

    def fail_captures(self, fail):
        """1: at the end of a capture; 2: the step that is recorded fails."""
        self.cuda.standin_fail_captures(int(fail))

    def set_executor(self, executor):
        self._executor = executor  # kept alive
        self.inference.standin_set_executor(executor)


def family_of(release):
    """The stand-ins that this release of the bindings loads."""
    return min((8, 10, 11), key=lambda known: abs(known - int(release.split(".")[0])))


def load(release, folder):
    """Compile and load what a release needs, then make its bindings `import tensorrt`."""
    installed, family = release.split("-")[0], family_of(release)
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        compile_all(family, folder)
    standin = Standin(folder, family)
    sys.path[:0] = [
        os.path.join(INSTALLED, "pycuda"),
        os.path.join(INSTALLED, "tensorrt-" + installed),
    ]
    bindings = importlib.import_module("tensorrt_bindings")
    sys.modules["tensorrt"] = bindings
    if release == AS_821:
        hide_all_but(bindings, names_of("8.2.1"))
    return standin


def environment(release, folder, without=(), **variables):
    """os.environ for a process of its own in which `import tensorrt` and pycuda find the stand-ins.

    `without`: "tensorrt", "pycuda" or "driver", for machines that lack one of them.
    """
    paths = [ROOT]
    if "tensorrt" not in without:
        installed = "tensorrt-" + release.split("-")[0]
        paths += [os.path.join(HERE, "site"), os.path.join(INSTALLED, installed)]
    if "pycuda" not in without:
        paths.append(os.path.join(INSTALLED, "pycuda"))
    found = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), PYTHONWARNINGS="ignore")
    found.update({VARIABLE: release, VARIABLE + "_FOLDER": folder}, **variables)
    if "driver" not in without:
        found["LD_LIBRARY_PATH"] = folder
    return found


def names_of(release):
    """{class: [its names]} of a release's bindings, from tests/standin/names-RELEASE.json."""
    with open(os.path.join(HERE, "names-%s.json" % release), encoding="ascii") as file:
        return json.load(file)["classes"]


def hide_all_but(bindings, names):
    """Take away what the older release lacks, from the real module and its real classes."""
    for name in [name for name in dir(bindings) if not name.startswith("_")]:
        found = getattr(bindings, name)
        if not isinstance(found, type):
            continue
        if name not in names:
            delattr(bindings, name)
            continue
        for member in [member for member in vars(found) if not member.startswith("_")]:
            if member not in names[name]:
                delattr(found, member)
