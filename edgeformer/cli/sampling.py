"""The options of `generate` and `chat` that say how tokens are chosen and what ends an answer."""

import argparse
from typing import Any, Dict

from edgeformer.cli import console


def add_options(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("--max-new-tokens", type=int, metavar="N", help="stop after N tokens (default: cache full)")
    add("--temperature", type=float, metavar="T", help="0: the likeliest token always; up to 100")
    add("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens; 0: all")
    add("--top-p", type=float, metavar="P", help="draw from the likeliest that add up to P; 1: all")
    add("--seed", type=int, metavar="S", help="repeat a draw: 0 to 2**64 - 1 (default: a new one)")
    add("--stop", action="append", metavar="TEXT", help="end before this text; may be repeated")
    add("--deadline", type=float, metavar="SECONDS", help="end after SECONDS, at the next token")


def asked(arguments: argparse.Namespace) -> Dict[str, Any]:
    """What was asked for; the bundle's defaults hold for the rest."""
    names = ("max_new_tokens", "temperature", "top_k", "top_p", "seed")
    found = {name: getattr(arguments, name) for name in names}
    found["deadline_s"] = arguments.deadline
    if arguments.stop:
        found["stop"] = [console.argument_text(text, "--stop") for text in arguments.stop]
    return {name: value for name, value in found.items() if value is not None}
