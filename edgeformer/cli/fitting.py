"""Options of what an answer must fit, for every verb that answers."""

import argparse
from typing import Any, Dict

from edgeformer.cli import console
from edgeformer.wholefile import read_at_most

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
        path = arguments.json_schema
        raw = read_at_most(path, MOST_BYTES, "--json-schema")
        return {"json_schema": console.decoded(raw, f"--json-schema {path}")}
    return {}
