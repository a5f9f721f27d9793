"""`python -m edgeformer.export inspect`: what a checkpoint is, and whether it would export."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeformer.errors import EdgeformerError
from edgeformer.export.tokenizer import write_words
from edgeformer.export.words import read_words
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.inspect import describe, described
from edgeformer.nn.sources.source import Source


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m edgeformer.export inspect",
        description="Say what a checkpoint is, its sizes, and what is not supported, without "
        "reading its weights. Exit 0: it can be exported. 1: it cannot. 2: it is no checkpoint.",
    )
    parser.add_argument("model", metavar="PATH_OR_HUB_ID", help="folder, GGUF file or hub id")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    args = parser.parse_args(words)
    source = open_source(args.model)
    facts = describe(source)
    if facts["model"] is not None:
        _add_words(facts, source)
    print(json.dumps(facts) if args.json else described(facts))
    return 1 if facts["unsupported"] else 0


def _add_words(facts: dict[str, Any], source: Source) -> None:
    """Make the tokenizer as an export does, all but holding it against its reference."""
    with tempfile.TemporaryDirectory() as place:
        try:
            vocab_size = facts["model"]["vocab_size"]
            written = write_words(Path(place), read_words(source), vocab_size, compared=False)
        except EdgeformerError as error:
            facts["unsupported"].append(str(error).replace(place + "/", ""))
            return
    if written is not None:
        facts["tokenizer"] = {"kind": written.entry.kind, "ids": written.tokenizer.vocab_size}
        facts["chat_templates"] = sorted(written.chat_templates)
        facts["eos_token_ids"] = list(written.eos_token_ids)
        facts["notes"] = list(written.notes)
