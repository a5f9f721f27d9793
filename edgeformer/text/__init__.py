"""Text to token ids and back, on any Python, with the standard library only."""

import os
from typing import TYPE_CHECKING

from edgeformer.errors import BundleError
from edgeformer.text.char import read_char
from edgeformer.text.fields import read_json_object
from edgeformer.text.hf_file import read_hf_file
from edgeformer.text.stream import TextStream
from edgeformer.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from edgeformer.bundle import Bundle

__all__ = ["TextStream", "Tokenizer", "load_tokenizer", "open_tokenizer"]


def open_tokenizer(bundle: "Bundle") -> Tokenizer:
    """The tokenizer of a bundle, which must be the one that its manifest describes."""
    entry = bundle.manifest.tokenizer
    if entry is None:
        raise BundleError(
            "bundle %s has no tokenizer; pass token ids instead of text, or export it again from "
            "a checkpoint that has a tokenizer.json" % bundle.manifest.name
        )
    tokenizer = load_tokenizer(bundle.file(entry.file))
    rows = bundle.manifest.model["vocab_size"]
    reason = None
    if tokenizer.kind != entry.kind:
        reason = "is of the kind %s, not %s" % (tokenizer.kind, entry.kind)
    elif tokenizer.special_tokens != entry.special_tokens:
        reason = "has other special tokens than its manifest: %s" % tokenizer.special_tokens
    elif tokenizer.vocab_size > rows:
        reason = "has %d ids, and its model knows %d" % (tokenizer.vocab_size, rows)
    if reason is not None:
        raise BundleError(
            "the tokenizer of bundle %s %s; export the bundle again"
            % (bundle.manifest.name, reason)
        )
    return tokenizer


def load_tokenizer(path: str) -> Tokenizer:
    """The tokenizer in a file: our own of kind "char", or a Hugging Face tokenizer.json."""
    path = os.fspath(path)
    document = read_json_object(path)
    return read_char(document, path) if "kind" in document else read_hf_file(document, path)
