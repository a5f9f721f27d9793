"""The finished parts of a report on disk, each in a file of its own that is whole or not there.

A part that had begun and has no result was cut short: it is done again. One that was cut short
`TRIES` times is a finding itself (a weak supply switches a Nano off under load), and the report
goes on without it.
"""

import contextlib
import fcntl
import json
import os
import time
from time import perf_counter
from typing import Any, Callable, Dict, Iterator

from edgeformer import strictjson as js
from edgeformer.errors import BundleError, EdgeformerError

TRIES = 3
FOLDER = "parts"
OF = "of.json"  # what the parts are of

Say = Callable[[str], None]
Value = Dict[str, Any]


class Parts:
    """The parts in a folder. `of` says what they belong to: parts of something else are refused."""

    def __init__(self, folder: str, of: Value, say: Say) -> None:
        self._folder = os.path.join(folder, FOLDER)
        self._say = say
        with disk_errors(folder):
            os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, OF)
        if not os.path.exists(path):
            write_json(path, of)
            return
        known = read_json(path)
        if known != of:
            differ = sorted(key for key in set(known) | set(of) if known.get(key) != of.get(key))
            raise EdgeformerError(
                f"{folder} holds parts of another report: other {', '.join(differ)}; give another "
                "folder with -o, or remove that one"
            )

    def take(self, name: str, work: Callable[[], Value]) -> Value:
        """The value of a part: from its file, or from `work()`, whose file is then written.

        What `work` gives are plain values of JSON. {"error": text} is a value like others.
        """
        path = os.path.join(self._folder, name + ".json")
        if os.path.exists(path):
            found: Value = read_json(path)
            return found
        begun = os.path.join(self._folder, name + ".begun")
        tries = 1 + (read_json(begun)["tries"] if os.path.exists(begun) else 0)
        if tries > TRIES:
            self._say(f"{name}: given up")
            text = f"the program or the machine ended {TRIES} times while this was done"
            found = {"seconds": 0.0, "tries": TRIES, "value": {"error": text}}
        else:
            write_json(begun, {"tries": tries})
            self._say(f"{name}: begun" + (f", for the {tries}. time" if tries > 1 else ""))
            started = perf_counter()
            try:
                value = work()
            except (KeyboardInterrupt, EdgeformerError):  # the user's doing, or to be mended
                write_json(begun, {"tries": tries - 1})
                raise
            found = {"seconds": round(perf_counter() - started, 3), "tries": tries, "value": value}
        found["ended"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        write_json(path, found)
        with disk_errors(begun), contextlib.suppress(FileNotFoundError):
            os.unlink(begun)
        self._say(
            f"{name}: " + (found["value"].get("error") or f"done in {found['seconds']:.0f} s")
        )
        return found


def read_json(path: str) -> Any:
    """A file that this module wrote; nobody else's is trusted to be whole."""
    name = os.path.basename(path)
    try:
        with open(path, "rb") as file:
            return js.parse(file.read(), name)
    except (OSError, BundleError) as error:
        raise EdgeformerError(f"{path} is damaged ({error}); remove it and run again") from None


def write_json(path: str, value: Value) -> None:
    """Write the whole file or leave what was there, also if the power goes now."""
    write_bytes(path, (json.dumps(value, allow_nan=False, indent=1) + "\n").encode("ascii"))


def write_bytes(path: str, content: bytes) -> None:
    """As `write_json`: a new file, on the disk before it gets the name."""
    staged = path + ".part"
    with disk_errors(path):
        with open(staged, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def only_report(folder: str) -> Iterator[None]:
    """Hold the folder; the kernel lets go of it when this process ends, however it ends."""
    with disk_errors(folder):
        os.makedirs(folder, exist_ok=True)
        lock = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EdgeformerError(
                f"another process is writing the report in {folder}; wait for it, or give another "
                "folder with -o"
            ) from None
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """OSErrors as errors that a user understands."""
    try:
        yield
    except OSError as error:
        raise EdgeformerError(
            f"{error.filename or path}: {error.strerror}; make room or choose another folder with "
            "-o, and run again: finished parts are kept"
        ) from None
