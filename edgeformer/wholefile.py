"""Files that are there whole or not at all."""

import os
import stat
import tempfile
from typing import Iterable

from edgeformer.errors import EdgeformerError


def write_whole(path: str, parts: Iterable[bytes]) -> None:
    """Write a file through one beside it: a kill or a full disk leaves what was there before."""
    path = os.fspath(path)
    made = None
    try:
        target = os.path.realpath(path)  # a link stays one
        folder, name = os.path.split(target)
        if os.path.isdir(target):
            raise EdgeformerError(f"{path} is a directory; give the name of a file")
        if os.path.exists(target) and not os.path.isfile(target):
            raise EdgeformerError(f"{path} is no regular file; give another name")
        descriptor, made = tempfile.mkstemp(prefix=name[:60] + ".", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, _mode(target))
        os.replace(made, target)
        made = None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise EdgeformerError(f"{path!r} cannot be written: {reason}") from None
    finally:
        if made is not None:
            os.unlink(made)


def _mode(path: str) -> int:
    """The permissions that `open` would leave a file with, or make it with."""
    if os.path.exists(path):
        return stat.S_IMODE(os.stat(path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
