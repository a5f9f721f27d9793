"""The file that ONNX Runtime's profiler writes: an event a line, in releases from 1.10 on.

Times are whole microseconds, cut off: up to one of each node is missing from it, and stands in the
run that holds the node.
"""

import json
from typing import Any, Dict, List, NamedTuple, Tuple

from edgeformer.errors import EdgeformerError

NODE = "_kernel_time"  # 1.10 has also fences, which take no time on a CPU
EXECUTOR, RUN = "SequentialExecutor::Execute", "model_run"
MOST_EVENTS = 1000000  # the profiler silently drops what comes after


class NodeTime(NamedTuple):
    """One node of one run."""

    name: str
    operator: str
    us: int


class Run(NamedTuple):
    """One run of the graph. `us` holds `executor_us`, and that holds the nodes."""

    nodes: Tuple[NodeTime, ...]
    executor_us: int
    us: int

    @property
    def nodes_us(self) -> int:
        return sum(node.us for node in self.nodes)


def read_runs(path: str) -> List[Run]:
    """Every run of a profile, in order; EdgeformerError where it is no whole profile."""
    runs: List[Run] = []
    nodes: List[NodeTime] = []
    executor, line, number = None, b"", 0
    try:
        with open(path, "rb") as file:
            for line in file:
                number += 1
                event = _event(line)
                kind, name = event.get("cat"), event.get("name", "")
                if kind == "Node" and name.endswith(NODE):
                    operator = str(event["args"]["op_name"])
                    nodes.append(NodeTime(name[: -len(NODE)], operator, _us(event)))
                elif kind == "Session" and name == EXECUTOR:
                    executor = _us(event)
                elif kind == "Session" and name == RUN:
                    runs.append(_run(nodes, executor, _us(event)))
                    nodes, executor = [], None
    except OSError as error:
        raise EdgeformerError(
            f"the profile cannot be read: {error.strerror} ({path}); is the folder for temporary "
            "files full? TMPDIR names another one"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _garbage(f"line {number} is not an event: {error}") from None
    if line.strip() != b"]":
        raise _garbage(f"it ends after line {number}, before its end")
    if nodes or executor is not None:
        raise _garbage("its last run has no end")
    return runs


def _event(line: bytes) -> Dict[str, Any]:
    text = line.decode("utf-8").strip().rstrip(",")
    if text in ("", "[", "]"):
        return {}
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("name", ""), str):
        raise ValueError("no object with a name")
    return found


def _us(event: Dict[str, Any]) -> int:
    found = event["dur"]
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError(f"a duration of {found!r}")
    return found


def _run(nodes: List[NodeTime], executor: Any, us: int) -> Run:
    if executor is None or not nodes:
        raise ValueError("a run without nodes")
    run = Run(tuple(nodes), executor, us)
    # each end is read before the next beginning; one microsecond for the cutting off
    if run.nodes_us > executor + 1 or executor > us + 1:
        raise ValueError(f"nodes of {run.nodes_us} us in {executor} us in a run of {us} us")
    return run


def _garbage(what: str) -> EdgeformerError:
    return EdgeformerError(
        f"what onnxruntime's profiler wrote is no whole profile: {what}; measure again, with fewer "
        "--new-tokens or a TMPDIR that has room"
    )
