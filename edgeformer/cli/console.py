"""Text through a terminal or a pipe, whatever encoding Python believes it has."""

import argparse
import codecs
import os
import re
import sys
from typing import Any, Dict, List, Union

from edgeformer.errors import EdgeformerError

MOST_BYTES = 16 << 20  # of stdin: far more than any cache holds


def parser(verb: str, description: str) -> argparse.ArgumentParser:
    """A parser that knows the bundle; no abbreviations, so that options can be added later."""
    made = argparse.ArgumentParser(
        prog=f"python -m edgeformer {verb}", description=description, allow_abbrev=False
    )
    made.add_argument("bundle", metavar="BUNDLE", help="bundle directory")
    return made


def add_backend_options(made: argparse.ArgumentParser) -> None:
    made.add_argument("--backend", default="auto", metavar="NAME", help="auto (default), ort, trt")
    made.add_argument(
        "--threads", type=int, metavar="N", help="CPU threads (default: the fast cores)"
    )
    made.add_argument(
        "--no-cuda-graph",
        dest="cuda_graph",
        action="store_const",
        const=False,
        help="TensorRT: do not record and replay the steps of one token",
    )


def add_huge_pages(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--huge-pages", action="store_true", help="weights in pages of 2 MB (glibc 2.35 and newer)"
    )


def add_draft(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--draft",
        metavar="NAME",
        help="guess tokens ahead, and score them in one step, with the same tokens in the end: "
        "lookup (in the text so far), the file of a drafter, a smaller bundle, or off (default)",
    )


def draft(arguments: argparse.Namespace) -> Dict[str, Any]:
    """What `--draft` said, as a keyword of `load` and `stream`."""
    if arguments.draft is None:
        return {}
    return {"draft": argument_text(arguments.draft, "--draft")}


def say(line: str) -> None:
    """One line on stderr, where everything but the answer goes."""
    print(line, file=sys.stderr, flush=True)


def argument_text(text: str, what: str) -> str:
    """A command-line argument as the UTF-8 that was typed.

    Python 3.6 in the C locale reads bytes above 127 as half surrogate pairs.
    """
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return decoded(os.fsencode(text), what)


def decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EdgeformerError(
            f"{what} is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}; "
            "convert it first, for example with iconv -t UTF-8"
        ) from None


def standard_input() -> str:
    """All of stdin, without its last line break."""
    if sys.stdin is None:
        raise EdgeformerError("standard input is closed; give the prompt as an argument")
    raw = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise EdgeformerError(f"standard input has more than {MOST_BYTES} bytes; give a part of it")
    text = decoded(raw, "standard input")
    return text[:-1] if text.endswith("\n") else text


def prompt(argument: str, as_ids: bool, what: str = "the prompt") -> Union[str, List[int]]:
    """What an argument says, or stdin where it is "-": text, or the token ids that it lists."""
    text = standard_input() if argument == "-" else argument_text(argument, what)
    if not as_ids:
        return text
    words = text.replace(",", " ").split()
    wrong = next((word for word in words if not re.match(r"-?\d{1,18}\Z", word)), None)
    if wrong is not None:
        raise EdgeformerError(f"{wrong[:60]!r} is no token id; with --ids {what} is: 17 4 9")
    return [int(word) for word in words]


class TextOut:
    """Writes text to stdout as it comes.

    A stdout that Python takes for ASCII (the C locale on 3.6) gets UTF-8, as later Pythons do;
    any other encoding gets a question mark for what it lacks.
    """

    def __init__(self) -> None:
        self._raw = None if sys.stdout is None else sys.stdout.buffer
        name = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._encoding = "utf-8" if codecs.lookup(name).name == "ascii" else name

    def write(self, text: str) -> None:
        if self._raw is not None and text:
            self._raw.write(text.encode(self._encoding, "replace"))
            self._raw.flush()
