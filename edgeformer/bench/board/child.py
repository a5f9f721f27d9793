"""A process that loads a model to check it, so that the parent never does.

It reads a job from stdin and answers on stdout: {"done": {...}} or {"failed": text}.
"""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict

from edgeformer.bench import answering
from edgeformer.errors import CheckFailed, EdgeformerError

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# At the end of sys.path: nothing there may stand in for a module of Python's own.
_START = (
    "import sys; sys.path.append({!r}); from edgeformer.bench.board import child; child.main({})"
)
TAIL = 600  # characters of a dead child's stderr
TIMEOUT = 1800.0  # seconds; a GPU that hangs must not stop a report that nobody watches


def ask(job: Dict[str, Any]) -> Dict[str, Any]:
    """What the job gives, or {"error": text}: a child that dies is a finding, too."""
    command = [sys.executable, "-c", _START.format(_ROOT, os.getpid())]
    with tempfile.TemporaryFile() as printed:  # a pipe that nobody empties would stop the child
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
        )
        try:
            out, _ = child.communicate(json.dumps(job).encode("ascii"), timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return {"error": f"the process did not end within {TIMEOUT:g} s"}
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        answer = _answer(out)
        if "done" in answer:
            return dict(answer["done"])
        if "failed" in answer:
            return {"error": str(answer["failed"])}
        printed.seek(max(0, printed.seek(0, os.SEEK_END) - TAIL))
        said = printed.read().decode("utf-8", "replace").strip()
    ended = f"signal {-child.returncode}" if child.returncode < 0 else f"status {child.returncode}"
    return {"error": f"the process ended with {ended}" + (f": {said}" if said else "")}


def _answer(out: bytes) -> Dict[str, Any]:
    lines = out.decode("ascii", "replace").splitlines()
    try:
        return dict(json.loads(lines[-1])) if lines else {}
    except ValueError:  # it died while it wrote
        return {}


def main(parent: int) -> None:
    """Do one job."""
    job, answers = answering.begin(parent)
    try:
        answer = {"done": JOBS[job["do"]](job)}
    except EdgeformerError as error:
        answer = {"failed": str(error)}
    except MemoryError:
        answer = {"failed": "no memory was left"}
    answers.write(json.dumps(answer, allow_nan=False) + "\n")
    answering.end(answers)


def _opened(job: Dict[str, Any], backend: str) -> Any:
    from edgeformer.backends import open_backend
    from edgeformer.bundle import Bundle

    engines = job["engines"] if backend == "trt" else None
    return open_backend(Bundle.open(job["path"]), backend, engines=engines)


def check(job: Dict[str, Any]) -> Dict[str, Any]:
    """The golden run on one backend, judged as the verb `check` does."""
    from edgeformer.bundle import Bundle
    from edgeformer.generation.golden import golden_run

    manifest = Bundle.open(job["path"]).manifest
    with _opened(job, job["backend"]) as backend:
        precision, reason = backend.precision, backend.reason
        try:
            found = golden_run(backend, manifest)
        except CheckFailed as error:  # numbers that are none
            return _judged(False, str(error), precision, reason)
    limits = manifest.golden.limits
    passed, text = found.passed(precision, limits), str(found)
    if passed is None:
        text += f"; the bundle has no limits for {precision}"
    elif precision != "fp32":
        text += f"; {found.beyond(limits[precision]) or 'within its limits'}"
    return _judged(passed, text, precision, reason)


def _judged(passed: Any, what: str, precision: str, reason: str) -> Dict[str, Any]:
    return {"passed": passed, "what": what, "precision": precision, "reason": reason}


def numerics(job: Dict[str, Any]) -> Dict[str, Any]:
    """Layer by layer against ONNX Runtime, one backend after the other: memory holds one."""
    from edgeformer.bench.board.numerics import compared, trace
    from edgeformer.bundle import Bundle

    manifest = Bundle.open(job["path"]).manifest
    with _opened(job, "ort") as backend:
        wanted = trace(backend, manifest)
    with _opened(job, "trt") as backend:
        precision, found = backend.precision, trace(backend, manifest)
    return compared(wanted, found, precision, manifest.model["n_layers"])


JOBS = {"check": check, "numerics": numerics}
