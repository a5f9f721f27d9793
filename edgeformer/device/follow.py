"""`tegrastats` as a child for the length of a run: started once, and gone when we are."""

import collections
import os
import shutil
import signal
import subprocess
import threading
from time import perf_counter
from typing import Deque, NamedTuple, Optional

from edgeformer.device.tegrastats import Reading, parse

KEPT = 16  # lines; whoever asks wants the newest
PATIENCE = 3.0  # seconds that the child has to end

# The shell reads its input until that ends, which it does also when this process is killed: then
# tegrastats goes too. Its own session, so that Ctrl-C reaches us and not it.
_GUARD = """
"$1" --interval "$2" </dev/null 2>/dev/null &
child=$!
exec >&-
read -r _
kill "$child" 2>/dev/null
wait "$child"
"""


class Told(NamedTuple):
    """A line, and when it came by `time.perf_counter`."""

    at: float
    reading: Reading


def find_tegrastats() -> Optional[str]:
    """Where this machine has it: a Jetson, or a container on one that was lent it."""
    return shutil.which("tegrastats")


class Follower:
    """Reads the lines of one `tegrastats --interval MS`."""

    def __init__(self, program: str, interval_s: float) -> None:
        self.interval_s = interval_s
        self._lines: Deque[Told] = collections.deque(maxlen=KEPT)
        milliseconds = str(max(1, round(interval_s * 1000)))
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "sh", program, milliseconds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._thread = threading.Thread(target=self._read, name="tegrastats", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._guard.stdout as lines:
            while True:
                line = lines.readline(1 << 16)
                if not line:
                    return
                if line.endswith(b"\n"):  # else it was cut when the child ended
                    self._lines.append(Told(perf_counter(), parse(line)))

    def newest(self, within_s: Optional[float] = None) -> Optional[Reading]:
        """The last line, unless it is older than that (three intervals): it tells of now or not."""
        limit = 3 * self.interval_s + 0.1 if within_s is None else within_s
        told = self._lines[-1] if self._lines else None
        return told.reading if told and perf_counter() - told.at <= limit else None

    def stop(self) -> None:
        """End the child and wait for it. May be called again."""
        if not self._guard.stdin.closed:
            self._guard.stdin.close()
        try:
            self._guard.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()
        self._thread.join(PATIENCE)
