"""Whether a bundle's tokenizer gives the ids and texts of Hugging Face's library."""

from __future__ import annotations

import tokenizers

from edgeformer.manifest_text import Identity
from edgeformer.text import Tokenizer
from edgeformer.text.hard_strings import HARD_STRINGS

SHOWN = 12  # differences that the manifest names
# Their vocabularies hold control tokens like any piece: the reference finds them in a text even
# when it is told that they are text. We never do.
WHOLE_PIECES = ("unigram", "word-piece", "word-level")
IN_TEXT = 8  # special tokens that are tried inside a text


def compare(ours: Tokenizer, reference_json: str) -> Identity:
    """Both ways of encoding, and decoding, of every shipped text and of special tokens in texts."""
    theirs = tokenizers.Tokenizer.from_str(reference_json)
    # files keep what training cut and filled texts to; transformers encodes a prompt without it
    theirs.no_truncation()
    theirs.no_padding()
    texts = list(HARD_STRINGS)
    for token in list(ours.special_tokens)[:IN_TEXT]:
        texts += [f"a{token}b", f" {token} {token}\n", f"{token}{token[:-1]}"]
    differences = []
    for text in texts:
        if not _equal(ours, theirs, text):
            differences.append(f"{text[:40]!r} gives other ids or another text")
    if len(differences) > SHOWN:
        differences = [*differences[:SHOWN], f"and {len(differences) - SHOWN} more texts"]
    return Identity(f"tokenizers {tokenizers.__version__}", len(texts), tuple(differences))


def _equal(ours: Tokenizer, theirs: tokenizers.Tokenizer, text: str) -> bool:
    for allow_special in (False, True):
        typed = any(token in text for token in ours.special_tokens)
        if typed and not allow_special and ours.kind in WHOLE_PIECES:
            continue
        theirs.encode_special_tokens = not allow_special
        ids = theirs.encode(text, add_special_tokens=False).ids
        if ours.encode(text, allow_special=allow_special) != ids:
            return False
        if ours.decode(ids) != theirs.decode(ids, skip_special_tokens=True):
            return False
    return True
