"""`python -m edgeformer VERB ...`: imports the verb's own module and nothing else."""

import errno
import importlib
import os
import sys
from typing import List, Optional

from edgeformer.errors import EdgeformerError

VERBS = {
    "generate": "stream text from a bundle",
    "check": "is a bundle whole, and does it give its golden tokens here?",
    "info": "what a bundle holds",
    "plan": "will a bundle fit a board's memory?",
    "build": "TensorRT engines of a bundle, for this machine's GPU",
    "bench": "what bundles cost here: times, memory, power, and whether they differ",
}
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main(arguments: Optional[List[str]] = None) -> int:
    """Run one verb; the exit status. 0 fine, 1 a check failed, 2 the user must change something."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        print(f"error: standard output takes no more: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2


def _run(words: List[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] == "--version":
        from edgeformer import __version__

        print(f"edgeformer {__version__}")
        return 0
    if words[0] not in VERBS:
        raise EdgeformerError(
            f"no verb is called {words[0]!r}; choose {', '.join(VERBS)} (--help says more)"
        )
    verb = importlib.import_module("edgeformer.cli." + words[0])
    arguments = verb.parser().parse_args(words[1:])
    arguments.words = words
    return verb.run(arguments)


def _usage() -> str:
    lines = ["usage: python -m edgeformer VERB ...", ""]
    lines += [f"  {verb:10}{text}" for verb, text in VERBS.items()]
    lines += ["", "python -m edgeformer VERB --help tells the rest; --version the version."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
