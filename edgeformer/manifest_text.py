"""What a manifest says about text: the tokenizer, and the chat templates."""

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from edgeformer import strictjson as js
from edgeformer.errors import BundleError

TOKENIZERS = ("char", "byte-bpe", "bpe", "unigram", "word-piece", "word-level")


class Identity(NamedTuple):
    """Whether this tokenizer gave the ids of the reference, and the texts where it did not."""

    reference: str
    texts: int
    differences: Tuple[str, ...]


class TokenizerEntry(NamedTuple):
    """How text becomes token ids. `named_tokens` are the names that chat templates know."""

    kind: str
    file: str
    special_tokens: Dict[str, int]
    named_tokens: Dict[str, str]
    bos_token_id: Optional[int]  # stands before every text; None: nothing does
    identity: Optional[Identity]  # None: not compared


def tokenizer_entry(value: Any, where: str) -> TokenizerEntry:
    entry = js.record(value, where, TokenizerEntry._fields)
    special = js.table(entry["special_tokens"], where + ".special_tokens")
    named = js.table(entry["named_tokens"], where + ".named_tokens")
    return TokenizerEntry(
        js.choice(entry["kind"], where + ".kind", TOKENIZERS),
        js.text(entry["file"], where + ".file"),
        {name: token_id(special[name], f"{where}.special_tokens") for name in special},
        {name: js.text(named[name], f"{where}.named_tokens") for name in named},
        js.optional(entry["bos_token_id"], where + ".bos_token_id", token_id),
        js.optional(entry["identity"], where + ".identity", _identity),
    )


def chat_templates(value: Any, where: str, files: Sequence[str]) -> Dict[str, str]:
    """Names of templates and the files that hold them."""
    templates = {}
    for name, file in js.table(value, where).items():
        at = f"{where}[{js.shown(name)}]"
        if js.text(file, at) not in files:
            raise BundleError(f"{at} is {js.shown(file)}, which is not in files")
        templates[name] = file
    return templates


def token_id(value: Any, where: str) -> int:
    return js.integer(value, where, 0, js.MOST_INT32)


def _identity(value: Any, where: str) -> Identity:
    entry = js.record(value, where, Identity._fields)
    return Identity(
        js.text(entry["reference"], where + ".reference"),
        js.integer(entry["texts"], where + ".texts", 0, js.MOST_INT32),
        js.items(entry["differences"], where + ".differences", js.text),
    )
