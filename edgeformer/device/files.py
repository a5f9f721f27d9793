"""Small files of the kernel: read whole, or None where there is nothing to read."""

import os
from typing import Optional


def text(*path: str) -> Optional[str]:
    """The stripped text of a file. A sensor that is off or gone answers with an error: None.

    Device-tree strings end with a NUL, which goes too.
    """
    try:
        with open(os.path.join(*path), "rb") as file:
            found = file.read(1 << 16)
    except OSError:
        return None
    return found.decode("utf-8", "replace").strip("\0 \t\r\n")


def number(*path: str) -> Optional[int]:
    """The whole number that a file holds."""
    found = text(*path)
    try:
        return int(found) if found else None
    except ValueError:
        return None
