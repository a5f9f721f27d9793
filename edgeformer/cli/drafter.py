"""`drafter`: an n-gram model of a text, to draft with."""

import argparse
import os
from time import perf_counter
from typing import TYPE_CHECKING, List

from edgeformer.cli import console
from edgeformer.wholefile import check_writable, read_at_most

if TYPE_CHECKING:
    from edgeformer.text import Tokenizer

BLOCK = 1 << 16  # characters that are turned into tokens at once
MOST_BYTES = 256 << 20


def parser() -> argparse.ArgumentParser:
    made = console.parser(
        "drafter", "Count the n-grams of a text, for generate --draft. Needs no onnxruntime."
    )
    add = made.add_argument
    add("text", metavar="TEXT", help="a text file in UTF-8, of the kind that will be written")
    add("-o", dest="output", metavar="FILE", required=True, help="the file to write")
    add(
        "--most",
        type=int,
        default=300000,
        metavar="N",
        help="contexts of 1, of 2 and of 3 tokens that are kept, 20 bytes each (default: 300000)",
    )
    return made


def run(arguments: argparse.Namespace) -> int:
    import numpy as np

    from edgeformer.bundle import Bundle
    from edgeformer.generation.drafting import ngram_file
    from edgeformer.text import open_tokenizer

    bundle = Bundle.open(arguments.bundle)
    ngram_file.tokenizer_of(bundle.manifest)  # or an error
    text = console.decoded(read_at_most(arguments.text, MOST_BYTES), arguments.text)
    check_writable(arguments.output)
    started = perf_counter()
    ids = _encoded(open_tokenizer(bundle), text)
    lengths = ngram_file.train(np.array(ids, np.int64), bundle.manifest, arguments.most)
    ngram_file.save(arguments.output, lengths, bundle.manifest)
    counts = ", ".join(str(len(contexts.keys)) for contexts in lengths)
    console.say(
        f"{arguments.output}: contexts of 1, 2 and 3 tokens: {counts}; from {len(ids)} tokens, "
        f"{os.path.getsize(arguments.output)} bytes, in {perf_counter() - started:.1f} s"
    )
    return 0


def _encoded(tokenizer: "Tokenizer", text: str) -> List[int]:
    """The tokens of a text, line break by line break: in blocks, which need less memory."""
    ids: List[int] = []
    start = 0
    while start < len(text):
        stop = start + BLOCK
        if stop < len(text):
            stop = text.rfind("\n", start, stop) + 1 or stop
        ids += tokenizer.encode(text[start:stop])
        start = stop
    return ids
