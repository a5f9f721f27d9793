"""How a child process of a bench begins and ends: a job on stdin, answers on stdout."""

import json
import os
import signal
import sys
from typing import Any, Dict, TextIO, Tuple


def begin(parent: int) -> Tuple[Dict[str, Any], TextIO]:
    """(the job, where to write answers): it ends with its parent, and Ctrl-C is the parent's.

    What libraries print on stdout goes to stderr.
    """
    from edgeformer.engines.child import die_with

    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return json.loads(sys.stdin.buffer.readline().decode("ascii")), answers


def ordered() -> Dict[str, Any]:
    """What the parent wants next, from a child that has told that it waits."""
    line = sys.stdin.buffer.readline()
    if not line:
        raise SystemExit(0)  # nobody waits for an answer
    order: Dict[str, Any] = json.loads(line.decode("ascii"))
    return order


def end(answers: TextIO) -> None:
    """Not through the destructors of libraries: the answers are out."""
    answers.close()
    sys.stderr.flush()
    os._exit(0)
