"""What a checkpoint says about text: its tokenizer, named tokens, chat templates, end tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources.files import MOST_JSON, open_regular, read_json, read_text
from edgeformer.nn.sources.source import Source
from edgeformer.nn.tokenizer_convert import gguf_tokenizer_json, sentencepiece_tokenizer_json

# SentencePiece's own file, by the names that checkpoints give it.
PIECES = ("tokenizer.model", "spiece.model")
NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
GGUF_NAMES = {
    "bos": "bos_token",
    "eos": "eos_token",
    "unknown": "unk_token",
    "padding": "pad_token",
}


@dataclass(frozen=True)
class Words:
    """`add_bos` is what the checkpoint orders; None: whatever tokenizer.json itself does."""

    tokenizer_json: str
    named_tokens: dict[str, str] = field(default_factory=dict)
    add_bos: bool | None = None
    chat_templates: dict[str, str] = field(default_factory=dict)
    eos_token_ids: tuple[int, ...] = ()


def read_words(source: Source) -> Words | None:
    """None for a checkpoint without any tokenizer: such a bundle takes and gives ids."""
    ends = tuple(source.eos_token_ids)
    if "tokenizer.ggml.tokens" in source.metadata:
        return _from_gguf(source, ends)
    files = source.tokenizer_files
    pieces = next((name for name in PIECES if name in files), None)
    if "tokenizer.json" not in files and pieces is None:
        if not files.keys() & {"vocab.json", "vocab.txt"}:
            return None
        raise EdgeformerError(
            f"`{source.where}` has {', '.join(sorted(files))}, but no tokenizer.json; make one: "
            'python -c "from transformers import AutoTokenizer as T; '
            f"T.from_pretrained('{source.where}').save_pretrained('{source.where}')\""
        )
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        config |= read_json(files[name]) if name in files else {}
    add_bos = config.get("add_bos_token")
    if "tokenizer.json" in files:
        document = read_text(files["tokenizer.json"], MOST_JSON)
    else:
        with open_regular(files[pieces]) as file:
            raw = file.read(MOST_JSON)
        document = sentencepiece_tokenizer_json(raw, str(files[pieces]), config)
    return Words(
        document,
        {name: text for name in NAMES if (text := _text(config.get(name))) is not None},
        add_bos if isinstance(add_bos, bool) else None,
        dict(source.chat_templates),
        ends,
    )


def _text(token: Any) -> str | None:
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _from_gguf(source: Source, ends: tuple[int, ...]) -> Words:
    prefix = "tokenizer.ggml."
    tokens = source.metadata[prefix + "tokens"]
    named = {}
    for theirs, ours in GGUF_NAMES.items():
        number = source.metadata.get(f"{prefix}{theirs}_token_id")
        if type(number) is int and 0 <= number < len(tokens):
            named[ours] = tokens[number]
    add_bos = source.metadata.get(prefix + "add_bos_token")
    return Words(
        gguf_tokenizer_json(source.metadata, source.where),
        named,
        add_bos if isinstance(add_bos, bool) else None,
        dict(source.chat_templates),
        ends,
    )


def within(text: str, vocab_size: int) -> tuple[str, list[str]]:
    """tokenizer.json without the added tokens that the model does not know, and what they were."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EdgeformerError(f"tokenizer.json is not JSON: {str(error)[:200]}") from None
    added = document.get("added_tokens") if isinstance(document, dict) else None
    entries = added if isinstance(added, list) else []
    lost = [
        entry
        for entry in entries
        if isinstance(entry, dict) and type(entry.get("id")) is int and entry["id"] >= vocab_size
    ]
    if not lost:
        return text, []
    document["added_tokens"] = [entry for entry in entries if entry not in lost]
    names = [str(entry.get("content"))[:40] for entry in lost]
    return json.dumps(document, ensure_ascii=False), names
