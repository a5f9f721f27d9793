"""`python -m edgeformer VERB ...`: imports the verb's own module and nothing else."""

import importlib
import sys
from typing import List, Optional

from edgeformer.cli.stdout import ends_well
from edgeformer.errors import EdgeformerError

VERBS = {
    "generate": "stream text from a bundle",
    "chat": "questions and answers that go on, in the bundle's chat template",
    "check": "is a bundle whole, and does it give its golden tokens here?",
    "info": "what a bundle holds",
    "doctor": "is this machine fit to run bundles, and what is to be done if not?",
    "prefix": "compute a text once, for all that begins with it",
    "score": "how likely a model finds a text",
    "drafter": "an n-gram model of a text, to draft with",
    "plan": "will a bundle fit a board's memory?",
    "build": "TensorRT engines of a bundle, for this machine's GPU",
    "bench": "what bundles cost here: times, memory, power, and whether they differ",
}
INTERRUPTED = 130  # 128 + SIGINT, as shells count


@ends_well
def main(arguments: Optional[List[str]] = None) -> int:
    """Run one verb; the exit status. 0 fine, 1 a check failed, 2 the user must change something."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(words)
    except EdgeformerError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


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
