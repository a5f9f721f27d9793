"""Libraries tried out in child processes: one that dies, even of SIGILL, is a finding like another.

Nothing of what is probed is ever imported here.
"""

import concurrent.futures
import json
import os
import signal
import subprocess
from time import perf_counter
from typing import Any, Dict, List, Mapping, NamedTuple

PATIENCE = 60.0  # seconds for one child: a Nano's card is slow
MARK = "@edgeformer "  # libraries print, too
TAIL = 400  # characters of what a child printed

# y = softmax(x @ w) with w the mirrored identity: opset 13, IR 7, which onnxruntime 1.10 reads.
GRAPH = (
    "CAcSCmVkZ2Vmb3JtZXI6tAEKEQoBeAoBdxIBbSIGTWF0TXVsCiUKAW0SAXkiB1NvZnRtYXgqFAoEYXhpcxj///////////"
    "8BoAECEgFnKksIBAgEEAFCAXdKQAAAAAAAAAAAAAAAAAAAgD8AAAAAAAAAAAAAgD8AAAAAAAAAAAAAgD8AAAAAAAAAAAAA"
    "gD8AAAAAAAAAAAAAAABaEwoBeBIOCgwIARIICgIIAQoCCARiEwoBeRIOCgwIARIICgIIAQoCCARCBAoAEA0="
)

_FRAME = """
import json, sys
def tell(**found):
    sys.stdout.write("\\n%s" + json.dumps(found) + "\\n")
    sys.stdout.flush()
try:
%s
except BaseException as error:
    tell(error=type(error).__name__, text=str(error), module=getattr(error, "name", None))
"""

BODIES = {
    "python": """
import os, platform
tell(version=platform.python_version(), arch=platform.machine(), executable=sys.executable,
     prefix=sys.prefix, base=sys.base_prefix)
""",
    "pip": """
import pip
tell(version=pip.__version__)
""",
    "numpy": """
import numpy
ones = numpy.ones((96, 96), numpy.float32)
tell(version=numpy.__version__, path=numpy.__file__, right=bool((ones.dot(ones) == 96).all()))
""",
    "onnxruntime": """
import base64, onnxruntime
tell(version=onnxruntime.__version__)
import numpy
onnxruntime.set_default_logger_severity(3)
graph = base64.b64decode("%s")
loaded = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
x = numpy.array([[0, 1, 2, 3]], numpy.float32)
(y,) = loaded.run(None, {"x": x})
wanted = [0.6439143, 0.23688284, 0.08714432, 0.0320586]
tell(version=onnxruntime.__version__, right=bool(abs(y[0] - wanted).max() < 1e-5),
     providers=onnxruntime.get_available_providers())
"""
    % GRAPH,
    "tensorrt": """
import tensorrt
tell(version=tensorrt.__version__, path=tensorrt.__file__)
""",
    "pycuda": """
import pycuda
tell(version=pycuda.VERSION_TEXT)
import pycuda.driver as driver
driver.init()
gpu = driver.Device(0)
tell(version=pycuda.VERSION_TEXT, gpu=gpu.name(), memory=gpu.total_memory(),
     compute_capability="%d.%d" % gpu.compute_capability())
""",
    "tokenizers": """
import tokenizers
from tokenizers.models import WordLevel
made = tokenizers.Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
tell(version=tokenizers.__version__, right=made.encode("b").ids == [1])
""",
    "jinja2": """
import jinja2
tell(version=jinja2.__version__, right=jinja2.Template("{{ 1 + 1 }}").render() == "2")
""",
}


class Probe(NamedTuple):
    """How a child ended. `died`: a signal's name, "timeout", or "" where it ended by itself."""

    found: Dict[str, Any]  # what it told last; `error` and `text` of an exception among it
    died: str
    words: str  # the end of what it printed on stderr
    seconds: float

    @property
    def well(self) -> bool:
        return not self.died and bool(self.found) and "error" not in self.found

    @property
    def version(self) -> str:
        return str(self.found.get("version", ""))


def missing(probe: Probe, package: str) -> bool:
    """Whether the package itself is not there, as opposed to being broken."""
    named = str(probe.found.get("module") or "").split(".")[0]
    return probe.found.get("error") == "ModuleNotFoundError" and named == package


def run(python: List[str], name: str, environment: Mapping[str, str]) -> Probe:
    """One probe in a child of its own."""
    body = "".join("    " + line + "\n" for line in BODIES[name].strip().splitlines())
    began = perf_counter()
    child = subprocess.Popen(
        [*python, "-c", _FRAME % (MARK, body)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
    )
    try:
        out, err = child.communicate(timeout=PATIENCE)
        died = _signal(child.returncode)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        died = "timeout"
    found: Dict[str, Any] = {}
    for line in out.decode("utf-8", "replace").splitlines():
        if line.startswith(MARK):
            found.update(json.loads(line[len(MARK) :]))
    words = err.decode("utf-8", "replace").strip()[-TAIL:]
    return Probe(found, died, words, perf_counter() - began)


def _signal(status: int) -> str:
    if status >= 0:
        return ""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def run_all(
    python: List[str], environment: Mapping[str, str], at_once: int = len(BODIES)
) -> Dict[str, Probe]:
    """All probes, `at_once` of them together."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        ahead = {name: pool.submit(run, python, name, environment) for name in BODIES}
        found = {name: job.result() for name, job in ahead.items()}
    if found["numpy"].died == "SIGILL":  # would the known cure help?
        cured = dict(environment, OPENBLAS_CORETYPE="ARMV8")
        found["numpy cured"] = run(python, "numpy", cured)
    return found


def environment_of(extra: Mapping[str, str] = os.environ) -> Dict[str, str]:
    """Ours, without what would make a child of Python 3 print or import something else."""
    return {k: v for k, v in extra.items() if k not in ("PYTHONSTARTUP", "PYTHONINSPECT")}
