"""SentencePiece's tokenizer.model as a tokenizer.json.

The file is a protocol buffer: pieces, the trainer's settings and the normalizer's. It is read
here without its package, which not every machine has.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from edgeformer.errors import EdgeformerError
from edgeformer.nn.tokenizer_convert.documents import added
from edgeformer.nn.tokenizer_convert.pieces import (
    BYTE,
    CONTROL,
    MOST_PIECES,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Pieces,
)
from edgeformer.nn.tokenizer_convert.protobuf import BYTES, fields, float_of, signed, text_of

UNIGRAM, BPE, CHARACTERS = 1, 2, 4
_KINDS = (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE)  # its numbers are those of GGUF
_FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


@dataclass
class _Model:
    """The fields that change ids, with the defaults of the format."""

    where: str
    texts: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    algorithm: int = UNIGRAM
    suffix: bool = False  # the sign for a space stands behind a word
    begin: int = 1
    end: int = 2
    charsmap: bytes = b""
    prefix: bool = True
    squeeze: bool = True
    escape: bool = True


def sentencepiece_tokenizer_json(
    raw: bytes, where: str, config: dict[str, Any] | None = None
) -> str:
    """What Hugging Face's library would read. `config`: the tokenizer_config.json beside it.

    From the config come added tokens and whether begin and end tokens stand around a text;
    without it, as with Llama: a begin token and no end token.
    """
    config = config or {}
    model = _read(raw, where)
    known = model.algorithm in (UNIGRAM, BPE, CHARACTERS)
    if not known or model.suffix or not model.escape:
        raise EdgeformerError(
            f"`{where}` is a SentencePiece model of a kind that is not known here (algorithm "
            f"{model.algorithm}, spaces as suffixes {model.suffix}, spaces escaped "
            f"{model.escape}); give a checkpoint with a tokenizer.json"
        )
    begins = _flag(config, "add_bos_token", where, True)
    ends = _flag(config, "add_eos_token", where, False)
    pieces = Pieces(
        where=where,
        texts=model.texts,
        scores=model.scores,
        kinds=model.kinds,
        unigram=model.algorithm == UNIGRAM,
        prefix=_flag(config, "add_prefix_space", where, model.prefix),
        squeeze=model.squeeze,
        charsmap=model.charsmap,
        # -1: there is none
        begin=model.begin if begins and model.begin >= 0 else None,
        end=model.end if ends and model.end >= 0 else None,
        merges=[] if model.algorithm == CHARACTERS else None,
    )
    return _with_added(pieces.tokenizer_json(), config, where)


def _read(raw: bytes, where: str) -> _Model:
    model = _Model(where)
    for number, kind, value in fields(raw, where):
        if number in (1, 2, 3) and kind != BYTES:
            raise EdgeformerError(f"`{where}` is no SentencePiece model")
        if number == 1:
            _read_piece(value, model)
        elif number == 2:
            _read_trainer(value, model)
        elif number == 3:
            _read_normalizer(value, model)
    if not model.texts:
        raise EdgeformerError(f"`{where}` is no SentencePiece model: it has no pieces")
    return model


def _read_piece(raw: bytes, model: _Model) -> None:
    if len(model.texts) == MOST_PIECES:
        raise EdgeformerError(f"`{model.where}` has more than {MOST_PIECES} pieces")
    text, score, kind = "", 0.0, NORMAL
    for number, _, value in fields(raw, model.where):
        if number == 1:
            text = text_of(value, model.where)
        elif number == 2:
            score = float_of(value, model.where)
        elif number == 3:
            kind = signed(value) if isinstance(value, int) else 0
    if kind not in _KINDS or not math.isfinite(score):
        raise EdgeformerError(
            f"`{model.where}`: piece {len(model.texts)} has type {kind} and score {score}"
        )
    model.texts.append(text)
    model.scores.append(score)
    model.kinds.append(kind)


def _read_trainer(raw: bytes, model: _Model) -> None:
    for number, _, value in fields(raw, model.where):
        if number == 3:
            model.algorithm = signed(value) if isinstance(value, int) else 0
        elif number == 24:
            model.suffix = bool(value)
        elif number in (41, 42) and isinstance(value, int):
            name = "begin" if number == 41 else "end"
            setattr(model, name, signed(value))


def _read_normalizer(raw: bytes, model: _Model) -> None:
    for number, kind, value in fields(raw, model.where):
        if number == 2 and kind == BYTES:
            model.charsmap = value
        elif number == 3:
            model.prefix = bool(value)
        elif number == 4:
            model.squeeze = bool(value)
        elif number == 5:
            model.escape = bool(value)


def _flag(config: dict[str, Any], name: str, where: str, otherwise: bool) -> bool:
    value = config.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise EdgeformerError(f"the config beside `{where}`: {name} is {value!r:.40}")
    return value


def _with_added(text: str, config: dict[str, Any], where: str) -> str:
    """With the tokens that the config adds to the model's pieces, or describes anew."""
    written = config.get("added_tokens_decoder")
    if not written:
        return text
    document = json.loads(text)
    by_id = {entry["id"]: entry for entry in document["added_tokens"]}
    if not isinstance(written, dict):
        raise EdgeformerError(f"the config beside `{where}`: added_tokens_decoder is no object")
    for number, entry in written.items():
        content = entry.get("content") if isinstance(entry, dict) else None
        flags = {name: entry.get(name, False) for name in _FLAGS} if content else {}
        known = number.isdigit() and len(number) < 8 and isinstance(content, str) and content
        if not known or not all(isinstance(value, bool) for value in flags.values()):
            raise EdgeformerError(
                f"the config beside `{where}`: added token {number[:20]} is {entry!r:.80}"
            )
        by_id[int(number)] = {**added(int(number), content, False), **flags}
    document["added_tokens"] = [by_id[number] for number in sorted(by_id)]
    return json.dumps(document, ensure_ascii=False)
