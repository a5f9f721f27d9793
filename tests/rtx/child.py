"""The process that holds TensorRT for RTX: a line of JSON asks, a line of JSON answers.

The calls are those of `edgeformer.engines.trt_builder`, which takes this library for TensorRT 11.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from typing import Any


def main(folder: str, seconds: str) -> None:
    sys.path.insert(0, folder)
    sys.modules["tensorrt"] = importlib.import_module("tensorrt_rtx_bindings")
    from edgeformer.engines import trt_builder

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no answer
    for line in sys.stdin:
        signal.alarm(int(seconds))  # a build that hangs ends like one that crashes
        answer = build(trt_builder, json.loads(line))
        signal.alarm(0)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def build(trt_builder: Any, job: dict[str, Any]) -> dict[str, Any]:
    start, log = time.monotonic(), []

    def tell(message: dict[str, Any]) -> None:
        log.extend([message["log"]] if "log" in message else [])

    try:
        layers = trt_builder.build(job, tell)["layers"]
    except trt_builder.Refused as error:
        return {"refused": error.kind, "text": "; ".join([str(error), *log])}
    size = os.path.getsize(job["plan"])
    os.remove(job["plan"])
    return {"layers": layers, "bytes": size, "seconds": time.monotonic() - start}


if __name__ == "__main__":
    main(*sys.argv[1:])
