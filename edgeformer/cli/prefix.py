"""`prefix`: compute the rows of a text once, for all that begins with it."""

import argparse
import os
from time import perf_counter
from typing import TYPE_CHECKING, Any, Dict

from edgeformer.cli import console, huge_pages
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable

if TYPE_CHECKING:
    from edgeformer.model import Model


def parser() -> argparse.ArgumentParser:
    made = console.parser(
        "prefix", "Compute the rows of a text and keep them: generate --prefix, chat --prefix."
    )
    add = made.add_argument
    add("text", metavar="TEXT", help="the text; - reads stdin, less its last break")
    add("--chat", action="store_true", help="TEXT is what the model of a chat is told beforehand")
    add("--ids", action="store_true", help="TEXT is token ids, as in: 17 4 9")
    add("-o", dest="out", required=True, metavar="FILE", help="the file to write")
    console.add_backend_options(made)
    console.add_huge_pages(made)
    return made


def run(arguments: argparse.Namespace) -> int:
    if arguments.huge_pages:
        huge_pages.start_again(arguments.words)
    if arguments.chat and arguments.ids:
        raise EdgeformerError("--chat takes text; leave out --ids")
    text = console.prompt(arguments.text, arguments.ids, "the text")
    check_writable(arguments.out)

    import edgeformer

    options = arguments.backend, arguments.threads, arguments.cuda_graph
    with edgeformer.load(arguments.bundle, *options) as model:
        console.say(f"backend: {model.backend_reason}")
        started = perf_counter()
        if arguments.chat:
            told = [{"role": "system", "content": text}]
            prefix = model.save_prefix(arguments.out, messages=told)
        else:
            prefix = model.save_prefix(arguments.out, text)
        console.say(
            f"{arguments.out}: {len(prefix.ids)} rows, {os.path.getsize(arguments.out) / 1e6:.1f} "
            f"MB, in {perf_counter() - started:.2f} s"
        )
    return 0


def add_option(made: argparse.ArgumentParser) -> None:
    """For the verbs that begin with a prefix."""
    made.add_argument("--prefix", metavar="FILE", help="begin with what the verb prefix computed")


def put_before(model: "Model", path: str, asked: Dict[str, Any]) -> Dict[str, Any]:
    """The rows of a file in the cache, and what was asked for behind what they are."""
    prefix = model.load_prefix(path)
    if prefix.messages is None:
        if "messages" in asked:
            raise EdgeformerError(f"the prefix {path} is of a text; leave out --chat")
        goes_on = asked["prompt"]
        if isinstance(goes_on, str) and goes_on:
            goes_on = encoded(model, goes_on)
        return dict(asked, prompt=[*prefix.ids, *goes_on])
    if "messages" not in asked:
        raise EdgeformerError(f"the prefix {path} is of a chat; add --chat")
    return dict(asked, messages=[*prefix.messages, *without_system(asked["messages"], path)])


def encoded(model: "Model", text: str) -> Any:
    """The ids of a text that goes on: no begin token stands before it."""
    if model.tokenizer is None:
        raise EdgeformerError("this bundle has no tokenizer; give the prompt as ids: --ids")
    return model.tokenizer.encode(text)


def without_system(messages: Any, path: str) -> Any:
    if messages and messages[0]["role"] == "system":
        raise EdgeformerError(f"the prefix {path} tells what --system would; leave that out")
    return messages
