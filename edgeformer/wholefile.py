"""Files that are there whole or not at all."""

import os
import tempfile
from typing import Iterable

from edgeformer.errors import EdgeformerError


def write_whole(path: str, parts: Iterable[bytes]) -> None:
    """Write a file through one beside it: a kill or a full disk leaves what was there before."""
    path = os.fspath(path)
    folder, name = os.path.split(os.path.abspath(path))
    made = None
    try:
        if os.path.isdir(path):
            raise EdgeformerError(f"{path} is a directory; give the name of a file")
        descriptor, made = tempfile.mkstemp(prefix=name[:60] + ".", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(made, 0o666 & ~mask)  # as `open` would have made it
        os.replace(made, path)
        made = None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise EdgeformerError(f"{path!r} cannot be written: {reason}") from None
    finally:
        if made is not None:
            os.unlink(made)
