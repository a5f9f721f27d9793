"""The small tokenizer.json of tests/data, as it is and with parts of it changed."""

import json
import os

from edgeformer.text import load_tokenizer

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data/byte_bpe")


def golden_ids():
    with open(os.path.join(FOLDER, "ids.json"), encoding="utf-8") as file:
        return json.load(file)


def small_document():
    with open(os.path.join(FOLDER, "tokenizer.json"), encoding="utf-8") as file:
        return json.load(file)


def added_token(content, token_id, **flags):
    """An entry of added_tokens: special, everything else off, unless flags say otherwise."""
    entry = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    entry.update({"id": token_id, "content": content, "special": True}, **flags)
    return entry


def tokenizer_of(document, folder):
    """Load a document through a file, as everyone does."""
    path = os.path.join(str(folder), "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return load_tokenizer(path)
