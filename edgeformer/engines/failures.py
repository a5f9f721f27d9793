"""Why a build failed: what is known of each way to fail, and what the user can do about it."""

import errno
import re
from typing import NamedTuple, Sequence

from edgeformer.engines.attempt import MIB, Ended, signal_name
from edgeformer.errors import EdgeformerError

SHOWN = 6  # log lines under an explanation

# What TensorRT or CUDA says -> the kind of failure. The first that matches counts.
_SAID = (
    ("int8", r"QuantizeLayer/DequantizeLayer layers require hardware"),
    ("driver", r"CUDA initialization failure|CUDA driver version is insufficient|no CUDA-capable"),
    ("memory", r"Tactic Device request: .*Available|out of memory|OutOfMemory|bad_alloc"),
    ("memory", r"Cuda failure: 2\b|cudaErrorMemoryAllocation|insufficient memory"),
    ("workspace", r"Could not find any implementation for node"),
    ("version", r"[Vv]ersion mismatch|linked against .* but loaded|compiled against a different"),
)
_NODE = re.compile(r"Could not find any implementation for node (.*?)(?:\.\)|\.$|$)")
_REQUEST = re.compile(r"Tactic Device request: ?(\S+) Available: ?(\S+?)\.? ")

# Kind -> what is told: the fact, its numbers, and what to do.
_FACTS = {
    "driver": "{text}; it needs a GPU and a driver that fits: on a Jetson use the TensorRT of its "
    "JetPack, elsewhere use --backend ort, which needs no engine",
    "killed": "the builder was killed (signal 9) at {peak} MiB of its own memory, while {graph} "
    "was built in a workspace of {workspaces} MiB with {available} MiB free before: most likely "
    "memory ran out and the kernel took it. Stop the desktop (sudo systemctl isolate "
    "multi-user.target), add swap (it serves the parser and the builder), use --layout shared, or "
    "export with a smaller --chunk",
    "memory": "GPU memory ran out while {graph} was built{numbers}, in workspaces of {workspaces} "
    "MiB. Swap does not help the GPU: stop the desktop and other programs, try --workspace 32, or "
    "export with a smaller --chunk or --capacity",
    "workspace": "TensorRT finds no kernel for {node} of {graph} in workspaces of {workspaces} "
    "MiB. Give it more (--workspace 1024) if memory allows, leave --tactics out, or use "
    "--precision fp32",
    "parser": "TensorRT's parser refuses {graph}: {text}. On a PC this tells every such node and "
    "the way round it: {lint}",
    "int8": "this GPU has no INT8, and TensorRT stops at the quantized nodes of {graph}; use a "
    "bundle of fp32 graphs and --precision fp16",
    "version": "the parts of TensorRT on this machine are of different versions; install libraries "
    "and Python module from one release (on a Jetson: sudo apt install --reinstall tensorrt "
    "python3-libnvinfer)",
    "crashed": "the builder crashed ({signal}) at {peak} MiB, while {graph} was built in a "
    "workspace of {workspaces} MiB, which is a fault of TensorRT or its driver; try --layout "
    "shared, --workspace 64 or --precision fp32",
    "graph": "{graph} is not what the manifest says: {text}; export the bundle again",
    "other": "building {graph} failed: {text} (exit {status}); try --precision fp32, and lint the "
    "graph on a PC: {lint}",
}


class Tried(NamedTuple):
    """What the message names: the graph, the workspaces in MiB, free memory."""

    graph: str
    workspaces: Sequence[int]
    available: int


def kind_of(ended: Ended) -> str:
    """ "killed", "crashed", or the kind that the child or the log tells."""
    if ended.status == -9:
        return "killed"
    if ended.status < 0:
        return "crashed"
    kind = str(ended.answer.get("failed", "lost"))
    if kind in ("builder", "start", "profile"):
        text = "\n".join(ended.log)
        for found, pattern in _SAID:
            if re.search(pattern, text):
                return found
    return kind


def explained(ended: Ended, tried: Tried) -> EdgeformerError:
    """The error that a user reads, with the last lines of the log."""
    kind, text, log = kind_of(ended), str(ended.answer.get("text", "")), "\n".join(ended.log)
    if kind in ("import", "error"):
        return EdgeformerError(text)
    if kind == "disk":
        full = ended.answer.get("errno") in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        fix = "make room on that disk" if full else "check who may write there"
        return EdgeformerError(f"{text}; {fix} and build again")
    node, request = _NODE.search(log), _REQUEST.search(log)
    fact = _FACTS.get(kind, _FACTS["other"]).format(
        graph=tried.graph,
        lint=f"python -m edgeformer.export lint {tried.graph}",
        workspaces=", ".join(map(str, tried.workspaces)),
        available=f"{tried.available / MIB:.0f}",
        peak=f"{ended.peak / MIB:.0f}",
        text=text or "the builder ended without an answer",
        status=ended.status,
        signal=signal_name(ended.status),
        node=node.group(1)[:200] if node else "a part",
        numbers=" ({} asked for, {} free)".format(*request.groups()) if request else "",
    )
    return EdgeformerError(fact + _tail(ended.log))


def _tail(log: Sequence[str]) -> str:
    if not log:
        return ""
    lines = [line[:300] for line in list(log)[-SHOWN:]]
    return "\nthe last that TensorRT said:\n  " + "\n  ".join(lines)
