"""The engines of a bundle on disk: one builder at a time, and never a set that is half there.

A set is staged in `engines/.KEY.part-PID`, its engine.json written last, and renamed. Under the
lock every such folder is a dead builder's. A set that replaces one gets a name of its own
(KEY.2), so that at each moment one of them is whole.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import time
from typing import Callable, Iterator, List, Optional

from edgeformer.bundle import Bundle
from edgeformer.engines.record import FOLDER, RECORD, EngineSet, plan_path, read_engine_set
from edgeformer.errors import BundleError, EdgeformerError

Say = Callable[[str], None]
WAIT = 30.0  # seconds from one line about another builder to the next
_PART = re.compile(r"\..+\.part-\d+\Z")


@contextlib.contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """OSErrors as errors that a user understands."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        fix = "make room on that disk" if full else "check who may write there"
        raise EdgeformerError(f"{where}: {error.strerror}; {fix} and build again") from None


def engines_folder(bundle: Bundle) -> str:
    """The bundle's folder of engines, made if it is not there."""
    folder = os.path.join(bundle.path, FOLDER)
    with disk_errors(folder):
        os.makedirs(folder, exist_ok=True)
    return folder


@contextlib.contextmanager
def only_builder(folder: str, say: Say) -> Iterator[None]:
    """Hold the lock of a folder of engines; wait, and say so, while another process has it.

    The kernel lets go of it when its holder ends, however it ends.
    """
    with disk_errors(folder):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(os.path.join(folder, ".lock"), flags, 0o666)
    try:
        told = 0.0
        while not _taken(lock):
            if not told or time.monotonic() - told >= WAIT:
                told = time.monotonic()
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
                say(f"waiting: process {holder or '(unknown)'} is building engines of this bundle")
            time.sleep(0.1)
        with disk_errors(folder):
            os.ftruncate(lock, 0)
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sweep(folder: str, say: Say) -> None:
    """Remove what dead builders left. Only under the lock."""
    with disk_errors(folder):
        for name in sorted(os.listdir(folder)):
            if _PART.match(name):
                say(f"removing {FOLDER}/{name}: its builder did not finish")
                remove(os.path.join(folder, name))


def remove(path: str) -> None:
    """Remove a set, its record first: what is left of it never counts."""
    if os.path.isdir(path) and not os.path.islink(path):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(path, RECORD))
        shutil.rmtree(path)
    else:
        os.remove(path)


def same_key(folder: str, key: str) -> List[str]:
    """The names of sets with a key, the newest first: KEY, KEY.2, KEY.3 ..."""
    names = {}
    for name in os.listdir(folder):
        found = re.match(re.escape(key) + r"(?:\.(\d{1,6}))?\Z", name, re.ASCII)
        if found:
            names[int(found.group(1) or 1)] = name
    return [names[number] for number in sorted(names, reverse=True)]


def find(bundle: Bundle, key: str, say: Say) -> Optional[EngineSet]:
    """A set with this key whose every byte is as its record says."""
    folder = os.path.join(bundle.path, FOLDER)
    for name in same_key(folder, key):
        try:
            found = read_engine_set(bundle, name)
            for engine in found.engines.values():
                if sha256(plan_path(bundle, found, engine)) != engine.sha256:
                    raise BundleError(f"{FOLDER}/{name}/{engine.file} is damaged")
            return found
        except BundleError as error:
            say(f"not used: {error}")
    return None


def free_key(folder: str, key: str) -> str:
    """A name for a new set: the key, or the key with the next number."""
    names = same_key(folder, key)
    if not names:
        return key
    number = re.match(r"\.(\d+)\Z", names[0][len(key) :])
    return f"{key}.{int(number.group(1)) + 1 if number else 2}"


@contextlib.contextmanager
def staging(folder: str, key: str) -> Iterator[str]:
    """A new folder for a set that is being built; gone at the end unless it was published."""
    path = os.path.join(folder, f".{key}.part-{os.getpid()}")
    with disk_errors(path):
        os.mkdir(path)
    try:
        yield path
    finally:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)  # else the next builder sweeps it away


def publish(staged: str, folder: str, key: str, record: str) -> None:
    """Write the record, put all of it on the disk, and give the set its name."""
    with disk_errors(staged):
        path = os.path.join(staged, RECORD)
        with open(path, "w", encoding="ascii") as file:
            file.write(record)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(staged)
        os.rename(staged, os.path.join(folder, key))
        _sync_folder(folder)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: str) -> str:
    """Of a whole file."""
    digest = hashlib.sha256()
    with disk_errors(path), open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
