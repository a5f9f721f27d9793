"""The process that builds one plan, started by `engines.attempt` and by nobody else.

It reads a job from stdin and answers on stdout, one JSON object a line: {"stage": ...} as it goes
on, {"log": ...} for what TensorRT says, and at the end {"done": {...}} or {"failed": kind,
"text": ...}. What libraries print goes to stderr.
"""

import ctypes
import json
import os
import signal
import sys
import warnings
from importlib.util import find_spec
from typing import Any, Callable, Dict

from edgeformer.errors import EdgeformerError

PR_SET_PDEATHSIG = 1


def main(parent: int) -> int:
    """Do one job; the exit status is 0 whenever an answer was given."""
    die_with(parent)
    _be_killed_first()
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    job = json.loads(sys.stdin.buffer.read().decode("ascii"))

    def tell(message: Dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    tell(_answer(job, tell))
    answers.close()
    # Not through destructors: TensorRT's at the end of a program have crashed after a good build.
    sys.stderr.flush()
    os._exit(0)


def _answer(job: Dict[str, Any], tell: Callable[[Dict[str, Any]], None]) -> Dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if job["do"] == "probe":  # building itself needs no pycuda, running does
                from edgeformer.backends.cuda import Gpu
            from edgeformer.engines import trt_builder
    except ImportError as error:
        return {"failed": "import", "text": _why(error)}
    try:
        if job["do"] == "probe":
            gpu = Gpu.first()
            found = trt_builder.probe(tell)
            found.update(name=gpu.name, compute_capability=gpu.compute_capability)
            return {"done": found}
        return {"done": trt_builder.build(job, tell)}
    except trt_builder.Refused as error:
        return {"failed": error.kind, "text": str(error)}
    except EdgeformerError as error:
        return {"failed": "error", "text": str(error)}
    except MemoryError as error:
        return {"failed": "memory", "text": f"no memory left ({error})"}
    except OSError as error:
        path = error.filename or job.get("plan", "")
        return {"failed": "disk", "errno": error.errno, "text": f"{path}: {error.strerror}"}


def _why(error: ImportError) -> str:
    """All that is missing here, not only what was looked for first."""
    from edgeformer.backends import why_no_trt

    missing = [f"no {name}" for name in ("tensorrt", "pycuda") if not find_spec(name)]
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        missing.insert(0, "no CUDA driver (libcuda.so.1)")
    if not missing:
        return why_no_trt(error)
    return (
        f"engines cannot be built on this machine: it has {', '.join(missing)}. They are built on "
        "the device that runs them: on a Jetson driver and TensorRT come with JetPack (sudo apt "
        "install python3-libnvinfer; a venv needs --system-site-packages), pycuda with python -m "
        "pip install pycuda. Elsewhere the bundle runs without engines: python -m edgeformer "
        "generate BUNDLE --backend ort"
    )


def die_with(parent: int) -> None:
    """End when the parent ends, however it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _be_killed_first() -> None:
    """When memory ends, the kernel shall take this process, not the desktop or the shell."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass  # some sandboxes forbid it; the build itself does not depend on it
