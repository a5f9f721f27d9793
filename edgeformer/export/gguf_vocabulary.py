"""The vocabulary of a GGUF file as a tokenizer.json: the byte-level ones (tokenizer model gpt2)."""

from __future__ import annotations

import json
from typing import Any

from edgeformer.errors import EdgeformerError

CONTROL, USER_DEFINED = 3, 4  # llama.cpp's token types
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LETTERS = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


def _then(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(parts)}


def _split(pattern: str) -> dict[str, Any]:
    return _then(
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        _byte_level(False),
    )


DIGITS = {"type": "Digits", "individual_digits": True}
QWEN = _split(CONTRACTIONS + LETTERS + r"|\p{N}" + REST)
LLAMA = _split(CONTRACTIONS + LETTERS + r"|\p{N}{1,3}" + REST)
PLAIN, BY_DIGIT = _byte_level(True), _then(DIGITS, _byte_level(True))
# Names that llama.cpp's converter gives to pre-tokenizers.
PRE_TOKENIZERS = {
    "gpt-2": PLAIN,
    "default": PLAIN,
    "olmo": PLAIN,
    "smollm": BY_DIGIT,
    "refact": BY_DIGIT,
    "starcoder": BY_DIGIT,
    "qwen2": QWEN,
    "stablelm2": QWEN,
    "llama-bpe": LLAMA,
    "dbrx": LLAMA,
    "smaug-bpe": LLAMA,
}
IGNORE_MERGES = ("llama-bpe",)


def tokenizer_json(metadata: dict[str, Any], where: str) -> str:
    """What Hugging Face's library would read for this vocabulary."""
    prefix = "tokenizer.ggml."
    model, pre = metadata.get(prefix + "model"), metadata.get(prefix + "pre", "default")
    if model != "gpt2" or pre not in PRE_TOKENIZERS:
        raise EdgeformerError(
            f"`{where}` has a vocabulary of model {model!r}, pre-tokenizer {pre!r}; give the "
            "checkpoint's folder with its tokenizer.json instead of this file"
        )
    tokens, merges = metadata.get(prefix + "tokens"), metadata.get(prefix + "merges")
    kinds = metadata.get(prefix + "token_type")
    kinds = [] if kinds is None else [int(kind) for kind in kinds]
    if not isinstance(tokens, list) or not isinstance(merges, list) or len(kinds) != len(tokens):
        raise EdgeformerError(f"`{where}`: the vocabulary lacks tokens, their types, or merges")
    vocab: dict[str, int] = {}
    for i, token in enumerate(tokens):
        if token in vocab:
            raise EdgeformerError(f"`{where}`: token {token[:40]!r} stands twice, as {i} too")
        vocab[token] = i
    added = [
        _added(i, token, kinds[i] == CONTROL)
        for i, token in enumerate(tokens)
        if kinds[i] in (CONTROL, USER_DEFINED)
    ]
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"} if pre == "qwen2" else None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": None,
        "decoder": _byte_level(True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre in IGNORE_MERGES,
            "vocab": vocab,
            "merges": merges,
        },
    }
    return json.dumps(document, ensure_ascii=False)


def _added(token_id: int, content: str, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": special}
