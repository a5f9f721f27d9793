"""Memory that loading a bundle leaves behind, given back to the system.

onnxruntime maps the weights. What it prepares in an order of its own it has read, and keeps mapped
where a node names it, as the scales of MatMulNBits, though no step reads it again. And a file of a
megabyte or more that was read as JSON leaves the C library's heap full of holes.
"""

import ctypes
import os
import re
import sys
from typing import Iterable, List, Tuple

MADV_DONTNEED = 4  # Linux
_MAPPING = rb"""(?mx)
    ^([0-9a-f]+)-([0-9a-f]+)[ ][^\n]*[ ](?:%s)\n
    (?:(?!Anonymous:)[A-Z][^\n]*\n)*
    Anonymous:[ ]+(\d+)[ ]kB"""


def release_heap() -> None:
    """Give back what is free in the heap, where the C library is glibc."""
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))


def release_mapped(paths: Iterable[str]) -> None:
    """Let go of this process's pages of mapped files.

    The kernel keeps them in its cache, and a page that is read again comes from there. Only
    mappings that nobody wrote to: of a private one the kernel would forget what was written.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    for start, end in _unwritten(paths):
        # Where the kernel refuses, the pages stay: no result depends on it.
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def _unwritten(paths: Iterable[str]) -> List[Tuple[int, int]]:
    """Where mappings of these files begin and end."""
    names = b"|".join(re.escape(os.fsencode(os.path.realpath(path))) for path in paths)
    try:
        with open("/proc/self/smaps", "rb") as file:
            found = re.findall(_MAPPING % names, file.read())
    except OSError:
        return []  # without /proc nothing is known, and nothing let go
    return [(int(start, 16), int(end, 16)) for start, end, written in found if written == b"0"]
