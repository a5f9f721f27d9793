"""Options of what an answer must fit, for every verb that answers."""

import argparse
from typing import Any, Dict

from edgeformer.cli import console
from edgeformer.errors import EdgeformerError

MOST_BYTES = 16 << 20


def add_options(made: argparse.ArgumentParser) -> None:
    only_one = made.add_mutually_exclusive_group()
    only_one.add_argument(
        "--regex", metavar="R", help="the whole answer matches this regular expression"
    )
    only_one.add_argument(
        "--json-schema", metavar="FILE", help="the answer is JSON, by the JSON schema in FILE"
    )


def asked(arguments: argparse.Namespace) -> Dict[str, Any]:
    """What was given, as Model.stream takes it."""
    if arguments.regex is not None:
        return {"regex": console.argument_text(arguments.regex, "--regex")}
    if arguments.json_schema is not None:
        return {"json_schema": _text_in(arguments.json_schema)}
    return {}


def _text_in(path: str) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise EdgeformerError(f"--json-schema cannot be read: {error.strerror} ({path})") from None
    if len(raw) > MOST_BYTES:
        raise EdgeformerError(f"--json-schema {path} has more than {MOST_BYTES} bytes")
    return console.decoded(raw, f"--json-schema {path}")
