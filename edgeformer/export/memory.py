"""Memory that was freed goes back to the system, before something else asks for as much."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Collect what is in cycles, and let glibc return its free pages."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
