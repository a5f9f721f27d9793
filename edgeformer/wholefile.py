"""Files that are there whole or not at all, and those that are read only if they are small."""

import os
import stat
import tempfile
from typing import Iterable, Optional

from edgeformer.errors import EdgeformerError


def write_whole(path: str, parts: Iterable[bytes]) -> None:
    """Write a file through one beside it: a kill or a full disk leaves what was there before."""
    _write(path, parts)


def check_writable(path: str) -> None:
    """Refuse a path that `write_whole` could not write, before anything is computed for it."""
    _write(path, None)


def read_at_most(
    path: str, most: int, option: str = "", advice: str = "give a part of it"
) -> bytes:
    """The bytes of a file, if there are no more. `option`: that of the command which names it."""
    name = f"{option} {path!r}".lstrip()
    try:
        with open(path, "rb") as file:
            raw = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise EdgeformerError(f"{name} cannot be read: {_reason(error)}") from None
    if len(raw) > most:
        raise EdgeformerError(f"{name} has more than {most} bytes; {advice}")
    return raw


def _write(path: str, parts: Optional[Iterable[bytes]]) -> None:
    """None: only make the file beside it, and remove that again."""
    path = os.fspath(path)
    made = None
    try:
        target = os.path.realpath(path)  # a link stays one
        folder, name = os.path.split(target)
        if os.path.isdir(target):
            raise EdgeformerError(f"{path} is a directory; give the name of a file")
        if os.path.exists(target) and not os.path.isfile(target):
            raise EdgeformerError(f"{path} is no regular file; give another name")
        if not os.path.isdir(folder):
            raise EdgeformerError(
                f"{path!r} cannot be written: there is no directory {folder!r}; make it first"
            )
        descriptor, made = tempfile.mkstemp(prefix=name[:60] + ".", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts or ():
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if parts is not None:
            os.chmod(made, _mode(target))
            os.replace(made, target)
            made = None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise EdgeformerError(f"{path!r} cannot be written: {_reason(error)}") from None
    finally:
        if made is not None:
            os.unlink(made)


def _reason(error: Exception) -> object:
    return getattr(error, "strerror", None) or error


def _mode(path: str) -> int:
    """The permissions that `open` would leave a file with, or make it with."""
    if os.path.exists(path):
        return stat.S_IMODE(os.stat(path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
