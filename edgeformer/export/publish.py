"""A directory that appears whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from edgeformer.errors import EdgeformerError

EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
HERE = -100  # AT_FDCWD


def check_target(target: Path, force: bool) -> Path:
    """The real place of the bundle; refused where something stands that must not be replaced."""
    target = Path(os.path.realpath(target))
    if not os.path.lexists(target):
        return target
    if not target.is_dir():
        raise EdgeformerError(f"`{target}` exists and is no directory; choose another -o BUNDLE")
    if any(target.iterdir()) and not (target / "manifest.json").is_file():
        raise EdgeformerError(
            f"`{target}` is a directory that is no bundle (no manifest.json), so it is not "
            "replaced; choose another -o BUNDLE"
        )
    if any(target.iterdir()) and not force:
        raise EdgeformerError(f"`{target}` exists; add --force to replace it")
    return target


@contextlib.contextmanager
def published(target: Path, force: bool = False) -> Iterator[Path]:
    """A new directory beside the target, which takes its place if the block ends well.

    Whatever stops the process, the target is the old bundle or the new one. A process that was
    killed leaves its directory behind; the next export to the same target removes it.
    """
    target = check_target(target, force)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target)
        staged, held = _claim(target)
        try:
            yield staged
            _sync(staged)
            check_target(target, force)
            _swap(staged, target)
            _sync_directory(target.parent)
        finally:
            # after a swap this is the old bundle
            shutil.rmtree(staged, ignore_errors=True)
            os.close(held)
    except OSError as error:
        raise EdgeformerError(_explain(error, target)) from error


def _claim(target: Path) -> tuple[Path, int]:
    """A new directory beside the target, and the descriptor that holds a lock on it."""
    while True:
        staged = target.with_name(f".{target.name}.partial-{secrets.token_hex(4)}")
        staged.mkdir()  # not tempfile: a bundle is for every user that the umask allows
        held = os.open(staged, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
        if staged.exists():  # or another export took it for a dead one
            return staged, held
        os.close(held)


def _explain(error: OSError, target: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        free = shutil.disk_usage(target.parent).free / 1e6
        return (
            f"no room to write `{target}`: {error.strerror} ({free:.1f} MB free there); "
            "nothing was written: free some or choose another -o BUNDLE"
        )
    return f"cannot write `{target}`: {error}; nothing was written"


def _swap(staged: Path, target: Path) -> None:
    """Put the new directory in place; the old one, if any, ends up where the new one was."""
    if not target.exists():
        os.rename(staged, target)
    elif not _exchange(staged, target):
        # Two renames: killed between them, both are whole, and the old one is beside the target.
        old = staged.with_name(staged.name + ".old")
        os.rename(target, old)
        os.rename(staged, target)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two names in one step; False where the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    return rename(HERE, os.fsencode(a), HERE, os.fsencode(b), EXCHANGE) == 0


def _remove_stale(target: Path) -> None:
    """Directories of exports that died: a living one holds a lock on its own."""
    for path in target.parent.glob(f".{target.name}.partial-*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir():
            _sync_directory(path)
            continue
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    _sync_directory(folder)


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
