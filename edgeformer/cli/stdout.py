"""How a command ends whose reader has gone, or whose disk is full: never with a traceback."""

import errno
import functools
import os
import sys
from typing import Any, Callable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def ends_well(main: Callable[..., int]) -> Callable[..., int]:
    """`main` with its stdout flushed: 0 where the reader has had enough, 2 where it is full."""

    @functools.wraps(main)
    def ended(*arguments: Any, **named: Any) -> int:
        try:
            try:
                return main(*arguments, **named)
            finally:  # behind --help, too, which ends the program
                if sys.stdout is not None:
                    sys.stdout.flush()
        except BrokenPipeError:
            _leave_stdout()
            return 0
        except OSError as error:
            if error.errno not in FULL or error.filename is not None:
                raise
            print(f"error: standard output takes no more: {error.strerror}", file=sys.stderr)
            _leave_stdout()
            return 2

    return ended


def _leave_stdout() -> None:
    """Python would complain once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
