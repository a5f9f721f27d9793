"""The parts of a tokenizer.json, as Hugging Face's library writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Part = dict[str, Any]


def part(kind: str, **settings: Any) -> Part:
    return {"type": kind, **settings}


def normalizers(parts: Sequence[Part]) -> Part | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return part("Sequence", normalizers=list(parts))


def pre_tokenizers(*parts: Part) -> Part:
    return parts[0] if len(parts) == 1 else part("Sequence", pretokenizers=list(parts))


def split(pattern: str) -> Part:
    return part("Split", pattern={"Regex": pattern}, behavior="Isolated", invert=False)


def byte_level(use_regex: bool = True) -> Part:
    return part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=use_regex)


def replace(pattern: str, content: str, kind: str = "String") -> Part:
    return part("Replace", pattern={kind: pattern}, content=content)


def added(token_id: int, content: str, special: bool) -> Part:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": special}


def template(begin: Sequence[tuple[str, int]], end: Sequence[tuple[str, int]]) -> Part | None:
    """What stands around a text by itself: tokens with their ids."""
    around = {token: token_id for side in (begin, end) for token, token_id in side}
    if not around:
        return None
    single = [{"SpecialToken": {"id": token, "type_id": 0}} for token, _ in begin]
    single.append({"Sequence": {"id": "A", "type_id": 0}})
    single += [{"SpecialToken": {"id": token, "type_id": 0}} for token, _ in end]
    special = {
        token: {"id": token, "ids": [token_id], "tokens": [token]}
        for token, token_id in around.items()
    }
    pair = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return part("TemplateProcessing", single=single, pair=pair, special_tokens=special)


def bpe(vocab: dict[str, int], merges: list[tuple[str, str]], **settings: Any) -> Part:
    plain = {
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return part("BPE", **{**plain, **settings}, vocab=vocab, merges=merges)


def document(
    model: Part,
    added_tokens: list[Part],
    *,
    normalizer: Part | None,
    pre_tokenizer: Part | None,
    post_processor: Part | None,
    decoder: Part | None,
) -> str:
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": sorted(added_tokens, key=lambda entry: entry["id"]),
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": post_processor,
            "decoder": decoder,
            "model": model,
        },
        ensure_ascii=False,
    )
