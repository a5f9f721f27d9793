"""One round of one case in a process of its own: what it says, and how it ended."""

import contextlib
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
    with Child(job, on_phase) as child:
        on_start(child.process)
        child.hear()
        return child.end()


class Child:
    """A process that measures. Leaving the context ends it, however far it is."""

    def __init__(self, job: Dict[str, Any], on_phase: Callable[[str], None]) -> None:
        command = [sys.executable, "-c", _START.format(_ROOT, os.getpid())]
        # A pipe that nobody empties would stop the child.
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        pipe = subprocess.PIPE
        self._process: Any = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._printed
        )
        self.process: int = self._process.pid
        self._watch = _Watch(self._process)
        self._on_phase = on_phase
        self._phases: Phases = []
        self._answer: Dict[str, Any] = {}
        self.say(job)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.stop()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        _close(self._process.stdin)
        self._process.stdout.close()
        self._printed.close()

    def say(self, message: Dict[str, Any]) -> None:
        """The job, and then what it shall do next where it waits for that."""
        try:
            self._process.stdin.write(json.dumps(message).encode("ascii") + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended already; its status says why

    def hear(self) -> Optional[Dict[str, Any]]:
        """What it says, after any phases: its answer, or that it waits. None: it has ended."""
        try:
            while True:
                self._watch.start_again()
                line = self._process.stdout.readline()
                if not line:
                    return None
                try:
                    message: Dict[str, Any] = json.loads(line.decode("ascii"))
                except ValueError:  # it was killed while it wrote
                    continue
                if "phase" in message:
                    self._phases.append((message["phase"], message["at"]))
                    self._on_phase(message["phase"])
                else:
                    self._answer = message
                    return message
        finally:
            self._watch.stop()  # while it waits for its turn it may be silent

    def end(self) -> Turn:
        """How it ended, once it has."""
        _close(self._process.stdin)
        while self.hear() is not None:
            pass
        self._watch.start_again()
        status = self._process.wait()
        self._watch.stop()
        phases, answer = self._phases, self._answer
        if "done" in answer:
            return Turn(answer["done"], None, False, phases)
        if "failed" in answer:
            return Turn(None, str(answer["failed"]), True, phases)
        where = f"while {phases[-1][0]}" if phases else "before it began"
        if self._watch.gave_up:
            said = f"the process said nothing for {SILENCE_S:.0f} s {where} and was ended"
            return Turn(None, said + _tail(self._printed), False, phases)
        return Turn(None, f"{_ended(status)} {where}{_tail(self._printed)}", False, phases)


def _close(stream: Any) -> None:
    with contextlib.suppress(BrokenPipeError):  # it did not read all
        stream.close()


class _Watch:
    """Ends a child that has said nothing for long."""

    def __init__(self, child: Any) -> None:
        self.gave_up = False
        self._child = child
        self._timer: Optional[threading.Timer] = None

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
