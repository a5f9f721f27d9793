"""`--huge-pages`: the C library asks the kernel for pages of 2 MB, in which weights read faster.

glibc 2.35 and newer does so where GLIBC_TUNABLES says it as a process begins. See mallopt(3) and
"Memory Allocation Tunables" in the manual of the GNU C library.
"""

import os
import re
import sys
from typing import Dict, List, Mapping, Optional, Tuple

from edgeformer.device import memory
from edgeformer.errors import EdgeformerError

NAME, TUNABLE, ASKED = "GLIBC_TUNABLES", "glibc.malloc.hugetlb", "1"  # 1: madvise
OLDEST = (2, 35)


def environment(given: Mapping[str, str], root: str = "/") -> Optional[Dict[str, str]]:
    """What a process that is to use huge pages begins with; None: `given` says so already.

    EdgeformerError where this system has none, or `given` says the opposite.
    """
    told = [part for part in given.get(NAME, "").split(":") if part]
    said = [part.partition("=")[2] for part in told if part.partition("=")[0] == TUNABLE]
    if said and said[-1] in ("1", "2"):
        return None
    if said:
        raise EdgeformerError(
            f"--huge-pages, and {NAME} says {TUNABLE}={said[-1]}; take one of them out"
        )
    found = libc_release()
    if found is None or found < OLDEST:
        has = "another C library" if found is None else "glibc {}.{}".format(*found)
        raise EdgeformerError(f"--huge-pages needs glibc 2.35, this system has {has}; leave it out")
    mode = memory.huge_page_mode(root)
    if mode not in ("always", "madvise"):
        said = "has none" if mode is None else f"is set to {mode}"
        raise EdgeformerError(
            f"--huge-pages: this kernel {said}; run: echo madvise | sudo tee "
            "/sys/kernel/mm/transparent_hugepage/enabled, or leave it out"
        )
    return dict(given, **{NAME: ":".join(told + [f"{TUNABLE}={ASKED}"])})


def start_again(words: List[str]) -> None:
    """Begin this command anew with huge pages, in the same process id; back at once if it has
    them."""
    made = environment(os.environ)
    if made is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, "-m", "edgeformer"] + words, made)


def for_children() -> None:
    """Every process that this one starts has them."""
    made = environment(os.environ)
    if made is not None:
        os.environ[NAME] = made[NAME]


def libc_release() -> Optional[Tuple[int, int]]:
    try:
        told = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return None
    found = re.match(r"glibc (\d+)\.(\d+)", told)
    return (int(found.group(1)), int(found.group(2))) if found else None
