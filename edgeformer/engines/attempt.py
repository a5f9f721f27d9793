"""One attempt at one plan: a child process, what it tells, and how it ended.

The parent imports neither TensorRT nor CUDA: their memory is the child's alone, and all of it
comes back when the child ends.
"""

import collections
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from typing import IO, Any, Callable, Deque, Dict, List, NamedTuple, Tuple

MIB = 1 << 20
EVERY = 20.0  # seconds from one progress line to the next
LOG_LINES = 40

Say = Callable[[str], None]
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# At the end of sys.path: nothing there may stand in for a module of Python's own.
_START = "import sys; sys.path.append({!r}); from edgeformer.engines import child; child.main({})"


class Job(NamedTuple):
    """What a child builds; plain values, for it goes through JSON."""

    graph: str  # path of the ONNX file
    plan: str  # path to write
    precision: str
    typed: bool  # the graph's own types are the engine's
    shapes: Dict[str, Tuple[List[int], List[int], List[int]]]  # input -> least, best, largest
    outputs: List[str]
    half: List[str]  # inputs and outputs that are FP16
    pinned: str  # prefix of the nodes that stay FP32
    workspace: int  # MiB
    tactics: List[str]  # sources; none: TensorRT's own choice
    timings: str  # path of the timing cache, which need not exist
    new_timings: str  # path to write


class Ended(NamedTuple):
    """How a child ended. `answer` is its last message, {} if it was killed before one."""

    status: int  # negative: the signal that ended it
    answer: Dict[str, Any]
    log: Tuple[str, ...]  # the last lines of TensorRT and of stderr
    peak: int  # bytes of resident memory; of the GPU's own memory it says nothing
    seconds: float


def run_child(job: Dict[str, Any], say: Say, what: str, every: float = EVERY) -> Ended:
    """Do a job in a child of its own; say at least every 30 s that it goes on."""
    command = [sys.executable, "-c", _START.format(_ROOT, os.getpid())]
    began = time.monotonic()
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        found = _Follower(child, say, what, every)
        found.send(json.dumps(job).encode("ascii"))
        found.follow()
        status = child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    seconds = time.monotonic() - began
    return Ended(status, found.answer, tuple(found.log), found.peak, seconds)


class _Follower:
    """Reads both streams of a child to their ends, and watches its memory."""

    def __init__(self, child: Any, say: Say, what: str, every: float) -> None:
        self._child = child
        self._say = say
        self._what = what
        self._every = every
        self._began = time.monotonic()
        self._stage = "starting"
        self.answer: Dict[str, Any] = {}
        self.log: Deque[str] = collections.deque(maxlen=LOG_LINES)
        self.peak = 0

    def send(self, job: bytes) -> None:
        try:
            self._child.stdin.write(job)
            self._child.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already; its status says why

    def follow(self) -> None:
        told = self._began
        with selectors.DefaultSelector() as streams:
            for stream, take in (
                (self._child.stdout, self._message),
                (self._child.stderr, self._printed),
            ):
                streams.register(stream, selectors.EVENT_READ, (take, bytearray()))
            while streams.get_map():
                for key, _ in streams.select(timeout=min(1.0, self._every / 2)):
                    if not _read(key.fileobj, *key.data):
                        streams.unregister(key.fileobj)
                self._look_at_memory()
                if time.monotonic() - told >= self._every:
                    told = time.monotonic()
                    self._progress()

    def _message(self, line: bytes) -> None:
        try:
            message = json.loads(line.decode("ascii"))
        except ValueError:  # a library that writes to the descriptor itself
            self._printed(line)
            return
        if "log" in message:
            self.log.extend(message["log"].splitlines())
        elif "stage" in message:
            self._stage = message["stage"]
            self._progress()
        else:
            self.answer = message

    def _printed(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if text:
            self.log.append(text[:1000])

    def _progress(self) -> None:
        seconds = time.monotonic() - self._began
        memory = f", peak {self.peak / MIB:.0f} MiB" if self.peak else ""
        self._say(f"  {self._what}: {self._stage}, {seconds:.0f} s{memory}")

    def _look_at_memory(self) -> None:
        try:
            with open(f"/proc/{self._child.pid}/status", encoding="ascii", errors="replace") as f:
                found = re.search(r"^VmHWM:\s+(\d+) kB$", f.read(), re.MULTILINE)
        except OSError:
            return
        if found:
            self.peak = max(self.peak, int(found.group(1)) << 10)


def _read(stream: "IO[bytes]", take: Callable[[bytes], None], rest: bytearray) -> bool:
    """Hand over the lines that have come; False at the end of the stream."""
    block = os.read(stream.fileno(), 1 << 16)
    rest += block
    *lines, left = bytes(rest).split(b"\n") if block else (bytes(rest), b"")
    for line in lines:
        take(line)
    rest[:] = left
    return bool(block)


def signal_name(status: int) -> str:
    """The name of the signal that ended a process."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
