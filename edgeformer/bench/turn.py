"""One round of one case in a process of its own: what it found, and how it ended."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# At the end of sys.path: nothing there may stand in for a module of Python's own.
_START = "import sys; sys.path.append({!r}); from edgeformer.bench import worker; worker.main({})"
LINES, WIDTH = 5, 300  # of a dead child's stderr
SILENCE_S = 7200.0  # of a phase: a GPU that hangs must not stop a run that nobody watches

Phases = List[Tuple[str, float]]  # each with the time at which it began


class Turn(NamedTuple):
    """How a child ended. One of `done` and `error` is None.

    `refused`: the error is the program's own, which tells the user what to change; else the child
    died of something.
    """

    done: Optional[Dict[str, Any]]
    error: Optional[str]
    refused: bool
    phases: Phases


def take_turn(
    job: Dict[str, Any],
    on_phase: Callable[[str], None],
    on_start: Callable[[int], None] = lambda process: None,
) -> Turn:
    """Do a job in a fresh process, of whose number `on_start` is told. Ctrl-C ends it, too."""
    command = [sys.executable, "-c", _START.format(_ROOT, os.getpid())]
    with tempfile.TemporaryFile() as printed:  # a pipe that nobody empties would stop the child
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed
        )
        on_start(child.pid)
        watch = _Watch(child)
        try:
            phases, answer = _follow(child, job, on_phase, watch)
            status = child.wait()
        finally:
            watch.stop()
            if child.poll() is None:
                child.kill()
                child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None and not stream.closed:
                    stream.close()
        if "done" in answer:
            return Turn(answer["done"], None, False, phases)
        if "failed" in answer:
            return Turn(None, str(answer["failed"]), True, phases)
        where = f"while {phases[-1][0]}" if phases else "before it began"
        if watch.gave_up:
            said = f"the process said nothing for {SILENCE_S:.0f} s {where} and was ended"
            return Turn(None, said + _tail(printed), False, phases)
        return Turn(None, f"{_ended(status)} {where}{_tail(printed)}", False, phases)


def _follow(
    child: Any, job: Dict[str, Any], on_phase: Callable[[str], None], watch: "_Watch"
) -> Tuple[Phases, Dict[str, Any]]:
    """Read its messages to the end: the phases, and the last one that is none."""
    try:
        child.stdin.write(json.dumps(job).encode("ascii"))
        child.stdin.close()
    except BrokenPipeError:
        pass  # it has ended already; its status says why
    phases: Phases = []
    answer: Dict[str, Any] = {}
    for line in child.stdout:
        watch.start_again()
        try:
            message = json.loads(line.decode("ascii"))
        except ValueError:  # it was killed while it wrote
            continue
        if "phase" in message:
            phases.append((message["phase"], message["at"]))
            on_phase(message["phase"])
        else:
            answer = message
    return phases, answer


class _Watch:
    """Ends a child that has said nothing for long."""

    def __init__(self, child: Any) -> None:
        self.gave_up = False
        self._child = child
        self._timer: Optional[threading.Timer] = None
        self.start_again()

    def start_again(self) -> None:
        self.stop()
        self._timer = threading.Timer(SILENCE_S, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _give_up(self) -> None:
        self.gave_up = True
        self._child.kill()


def _ended(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "signal"
    memory = "; most likely memory ran out" if -status == signal.SIGKILL else ""
    return f"the process was ended by {name} ({-status}){memory},"


def _tail(printed: Any) -> str:
    """The last lines of its stderr."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - (LINES + 1) * WIDTH * 4))
    lines = printed.read().decode("utf-8", "replace").strip().splitlines()[-LINES:]
    return "".join("\n  " + line[:WIDTH] for line in lines)
