"""A tokenizer.model becomes a tokenizer.json that gives SentencePiece's own ids and texts."""

import json
import os
import struct

import pytest
from tokenizers import Tokenizer

from edgeformer.errors import EdgeformerError
from edgeformer.nn.tokenizer_convert import sentencepiece_tokenizer_json
from tests.text.hard_strings import HARD_STRINGS, random_strings
from tests.text.make_family_golden import TESTS, checksum
from tests.text.small import tokenizer_of

FOLDER = os.path.join(TESTS, "data", "sentencepiece")
NAMES = ("bpe", "bpe-no-prefix", "bpe-squeeze", "unigram", "characters")


def raw_model(name):
    with open(os.path.join(FOLDER, name + ".model"), "rb") as file:
        return file.read()


def expected(name):
    with open(os.path.join(FOLDER, "expected.json"), encoding="utf-8") as file:
        return json.load(file)[name]


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_texts_are_those_of_sentencepiece(name, tmp_path):
    document = json.loads(sentencepiece_tokenizer_json(raw_model(name), name))
    tokenizer = tokenizer_of(document, tmp_path)
    for text, ids_sum, text_sum in zip(
        HARD_STRINGS, expected(name)["ids"], expected(name)["texts"]
    ):
        ids = tokenizer.encode(text)
        assert checksum(ids, "") == ids_sum, repr(text)
        # The unknown piece is hidden here, where SentencePiece shows a mark; and it squeezes the
        # sign for a space that was typed.
        if 0 not in ids and not (name == "bpe-squeeze" and "▁" in text):
            assert checksum([], tokenizer.decode(ids)) == text_sum, repr(text)


@pytest.mark.parametrize("name", NAMES)
def test_hugging_face_gives_the_same_with_it(name, tmp_path):
    text = sentencepiece_tokenizer_json(raw_model(name), name)
    ours, theirs = tokenizer_of(json.loads(text), tmp_path), Tokenizer.from_str(text)
    for allow_special in (False, True):
        theirs.encode_special_tokens = not allow_special
        for each in (*HARD_STRINGS, *random_strings(seed=3, count=200), "<s>a<tool>b</s>"):
            ids = ours.encode(each, allow_special=allow_special)
            assert ids == theirs.encode(each, add_special_tokens=False).ids, repr(each)
            assert ours.decode(ids) == theirs.decode(ids)
    assert ours.encode("ab", framed=True) == theirs.encode("ab").ids


def test_the_config_beside_it_adds_tokens_and_says_what_stands_around_a_text(tmp_path):
    config = {
        "add_bos_token": False,
        "add_eos_token": True,
        "added_tokens_decoder": {
            "1": {"content": "<s>", "special": True, "lstrip": False},
            "1200": {"content": "<|im_start|>", "special": True},
            "1201": {"content": "<think>", "special": False, "normalized": False},
        },
    }
    text = sentencepiece_tokenizer_json(raw_model("bpe"), "x", config)
    tokenizer = tokenizer_of(json.loads(text), tmp_path)
    assert tokenizer.encode("<|im_start|>a", allow_special=True)[0] == 1200
    assert 1201 in tokenizer.encode("a<think>b")
    assert (tokenizer.begin_ids, tokenizer.end_ids) == ((), (2,))
    assert Tokenizer.from_str(text).encode("a<|im_start|>").ids[-2:] == [1200, 2]
    plain = tokenizer_of(json.loads(sentencepiece_tokenizer_json(raw_model("bpe"), "x")), tmp_path)
    assert (plain.begin_ids, plain.end_ids) == ((1,), ())


def field(number, value):
    """A field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value):
    rest = value >> 7
    return bytes([value & 127 | (128 if rest else 0)]) + (varint(rest) if rest else b"")


def piece(text, score=-1.0, kind=1):
    return field(1, field(1, text) + field(2, score) + field(3, kind))


A = piece(b"<unk>", 0.0, 2) + piece(b"a")


@pytest.mark.parametrize(
    "raw, reason",
    [
        (b"", "has no pieces"),
        (b"not a model at all, but some text", "unknown type|left|is no SentencePiece"),
        (raw_model("bpe")[:-3], "left; download the file again"),
        (field(1, b"\x0a\xff\xff\xff\xff\xff\x0f"), "bytes, 0 are left"),
        (b"\x0a" + b"\xff" * 20, "a number without an end"),
        (A + piece(b"\xff"), "not UTF-8"),
        (A + piece(b"b", float("nan")), "piece 2 has type 1 and score nan"),
        (A + piece(b"b", -1.0, 9), "piece 2 has type 9"),
        (A + field(1, 5), "is no SentencePiece model"),
        (A + piece(b"a") + field(2, field(3, 2)), "piece 'a' stands twice, as 1 and 2"),
        (A + field(2, field(3, 3)), "algorithm 3"),
        (A + field(2, field(24, 1)), "spaces as suffixes True"),
        (A + field(3, field(5, 0)), "spaces escaped False"),
        (A + field(2, field(41, 7)), "its begin token is 7; it has 2 pieces"),
        (A + piece(b"b" * 40000) + field(2, field(3, 2)), "too long to find their merges"),
    ],
)
def test_a_wrong_model_is_refused_with_the_reason(raw, reason):
    with pytest.raises(EdgeformerError, match="`x`.*(%s)" % reason):
        sentencepiece_tokenizer_json(raw, "x")


@pytest.mark.parametrize(
    "config, reason",
    [
        ({"add_bos_token": "yes"}, "add_bos_token is 'yes'"),
        ({"added_tokens_decoder": [1]}, "is no object"),
        ({"added_tokens_decoder": {"x": {"content": "a"}}}, "added token x"),
        ({"added_tokens_decoder": {"900": {"content": ""}}}, "added token 900"),
        ({"added_tokens_decoder": {"900": {"content": "a", "lstrip": 1}}}, "added token 900"),
    ],
)
def test_a_wrong_config_is_refused_with_the_reason(config, reason):
    with pytest.raises(EdgeformerError, match="the config beside `x`: .*" + reason):
        sentencepiece_tokenizer_json(raw_model("bpe"), "x", config)


def test_a_model_without_begin_token_gives_none(tmp_path):
    minus_one = field(2, field(3, 2) + field(41, (1 << 64) - 1))
    document = json.loads(sentencepiece_tokenizer_json(A + minus_one, "x"))
    assert document["post_processor"] is None
