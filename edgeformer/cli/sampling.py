"""The options of `generate` and `chat` that say how tokens are chosen and what ends an answer."""

import argparse
import re
from typing import Any, Dict, List, Tuple

from edgeformer.cli import console
from edgeformer.errors import EdgeformerError
from edgeformer.generation.params import SamplingParams

# What is handed on as it was typed: option -> field.
PLAIN = {
    "max_new_tokens": "max_new_tokens",
    "min_new_tokens": "min_new_tokens",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "seed": "seed",
    "deadline": "deadline_s",
    "overflow": "overflow",
    "overflow_keep": "overflow_keep",
}


def add_options(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("--max-new-tokens", type=int, metavar="N", help="stop after N tokens (default: cache full)")
    add("--min-new-tokens", type=int, metavar="N", help="no end token among the first N")
    add("--temperature", type=float, metavar="T", help="0: the likeliest token always; up to 100")
    add("--top-k", type=int, metavar="K", help="draw from the K likeliest tokens; 0: all")
    add("--top-p", type=float, metavar="P", help="draw from the likeliest that add up to P; 1: all")
    add("--min-p", type=float, metavar="P", help="draw from those P times as likely as the first")
    add("--typical-p", type=float, metavar="P", help="draw from the most typical, up to P; 1: all")
    add("--repetition-penalty", type=float, metavar="R", help="tokens that were there; 1: none")
    add("--frequency-penalty", type=float, metavar="F", help="for each time in the answer; 0: none")
    add("--presence-penalty", type=float, metavar="F", help="for being in the answer; 0: none")
    add("--no-repeat-ngram", type=int, metavar="N", help="never the same N tokens again; 0: off")
    add("--logit-bias", action="append", metavar="ID=VALUE", help="add to a logit; may be repeated")
    add("--ban", action="append", metavar="IDS", help="never these tokens in a row, as 17 or 17,4")
    add("--force", metavar="IDS", help="begin the answer with these tokens, as 17,4")
    add("--ban-text", action="append", metavar="TEXT", help="... as the tokenizer writes TEXT")
    add("--force-text", metavar="TEXT", help="begin the answer with TEXT")
    add("--seed", type=int, metavar="S", help="repeat a draw: 0 to 2**64 - 1 (default: a new one)")
    add("--stop", action="append", metavar="TEXT", help="end before this text; may be repeated")
    add("--deadline", type=float, metavar="SECONDS", help="end after SECONDS, at the next token")
    add("--overflow", metavar="HOW", help="where the cache is full: stop (default), shift, ring")
    add("--overflow-keep", type=int, metavar="N", help="shift: keep the first N tokens (4)")


def asked(arguments: argparse.Namespace) -> Dict[str, Any]:
    """What was asked for; the bundle's defaults hold for the rest."""
    found = {field: getattr(arguments, option) for option, field in PLAIN.items()}
    if arguments.stop:
        found["stop"] = [console.argument_text(text, "--stop") for text in arguments.stop]
    if arguments.logit_bias:
        found["logit_bias"] = [_bias(text) for text in arguments.logit_bias]
    banned: List[Any] = [_ids(text, "--ban") for text in arguments.ban or ()]
    banned += [console.argument_text(text, "--ban-text") for text in arguments.ban_text or ()]
    if banned:
        found["banned_tokens"] = banned
    if arguments.force is not None and arguments.force_text is not None:
        raise EdgeformerError("an answer has one beginning: give --force or --force-text")
    if arguments.force is not None:
        found["forced_tokens"] = _ids(arguments.force, "--force")
    if arguments.force_text is not None:
        found["forced_tokens"] = console.argument_text(arguments.force_text, "--force-text")
    found = {name: value for name, value in found.items() if value is not None}
    # Before a model is loaded; texts need its tokenizer.
    texts = ("banned_tokens", "forced_tokens")
    SamplingParams().changed({name: it for name, it in found.items() if name not in texts})
    return found


def _ids(text: str, option: str) -> List[int]:
    words = text.replace(",", " ").split()
    if not words or not all(re.match(r"\d{1,18}\Z", word, re.ASCII) for word in words):
        raise EdgeformerError(
            f"{option} is {text[:60]!r}; it takes token ids, as in: {option} 17,4"
        )
    return [int(word) for word in words]


def _bias(text: str) -> Tuple[int, float]:
    token, _, value = text.partition("=")
    number = r"[+-]?(\d{1,18}(\.\d{0,18})?|\.\d{1,18})\Z"
    if not re.match(r"\d{1,18}\Z", token, re.ASCII) or not re.match(number, value, re.ASCII):
        raise EdgeformerError(
            f"--logit-bias is {text[:60]!r}; it takes a token id and a number, as in: 17=-2.5"
        )
    return int(token), float(value)
