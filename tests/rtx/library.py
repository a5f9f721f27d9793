"""TensorRT for RTX in a child process: what it builds, what it refuses, and how it dies.

It is a compiler of the generation of TensorRT 11, and has no Jetson among its devices: what it
accepts is a necessary condition for a Jetson's TensorRT and no more.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from edgeformer.contract import FP32_PREFIX, Graph
from edgeformer.engines.attempt import Job

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "EDGEFORMER_RTX"  # set by `make test-rtx`
SECONDS = 300  # for one build

Shapes = dict[str, tuple[list[int], list[int], list[int]]]  # input -> least, best, largest


class Built(NamedTuple):
    """One plan, which is thrown away: no GPU here could run it."""

    layers: int
    bytes: int
    seconds: float


class Refused(Exception):
    """`kind` is that of `trt_builder.Refused`; the text has TensorRT's own log."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Crashed(Exception):
    """The library took its process with it."""


def installed() -> Path:
    """The folder that requirements/ensure-rtx.sh fills."""
    pins = (ROOT / "requirements" / "rtx.txt").read_text("ascii").splitlines()
    (version,) = (p.split("==")[1] for p in pins if p.startswith("tensorrt-rtx-cu12-libs=="))
    return ROOT / ".venv-rtx" / version


class Library:
    """One child serves build after build, and the next one is started when it has died."""

    def __init__(self) -> None:
        self.child: subprocess.Popen[str] | None = None

    def build(self, graph: Path, contract: Graph, shapes: Shapes) -> Built:
        """Build what stands there for this profile; its own types are the engine's."""
        job = Job(
            graph=str(graph),
            plan=str(graph.with_suffix(".plan")),
            precision="fp32",
            typed=True,
            shapes=shapes,
            outputs=[spec.name for spec in contract.outputs],
            half=[],
            pinned=FP32_PREFIX,
            workspace=256,
            tactics=[],
            timings="",
            new_timings=str(graph.with_suffix(".timings")),
        )
        answer = self._ask(job._asdict())
        if "refused" in answer:
            raise Refused(answer["refused"], answer["text"])
        return Built(**answer)

    def close(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.communicate()
            self.child = None

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.child is None:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "tests.rtx.child", str(installed()), str(SECONDS)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        child = self.child
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        child.communicate()
        self.child = None
        status = child.returncode
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        raise Crashed(f"{how} while it built {request['graph']}")
