"""The bytes of each id add up to the text, for every kind of tokenizer."""

import random

import pytest

from tests.text.family_parts import FAMILIES, SPM_DECODER, byte_level, document_around
from tests.text.hard_strings import HARD_STRINGS
from tests.text.make_family_golden import golden, model_name
from tests.text.small import added_token, tokenizer_of


@pytest.fixture(scope="module")
def models():
    return golden()["models"]


# What a word's end adds depends on whether a token follows: openai-gpt's tokens have no bytes.
@pytest.fixture(scope="module", params=sorted(set(FAMILIES) - {"openai-gpt"}))
def tokenizer(request, models, tmp_path_factory):
    kind, parts = FAMILIES[request.param]
    document = document_around(kind, models[model_name(request.param)], parts)
    return tokenizer_of(document, tmp_path_factory.mktemp("family"))


def shown(tokenizer, ids, after_text):
    stream = tokenizer.stream(after_text=after_text)
    return "".join([stream.push(each) for each in ids]) + stream.flush()


def bytes_of_all(tokenizer, ids, after_text):
    first = [tokenizer.bytes_of(each, after_text) for each in ids[:1]]
    return first + [tokenizer.bytes_of(each) for each in ids[1:]]


@pytest.mark.parametrize("after_text", [True, False])
def test_bytes_of_ids_add_up_to_the_text(tokenizer, after_text):
    compared = 0
    for text in HARD_STRINGS[::6]:
        ids = tokenizer.encode(text)
        parts = bytes_of_all(tokenizer, ids, after_text)
        if None not in parts:
            compared += 1
            assert b"".join(parts).decode("utf-8") == shown(tokenizer, ids, after_text)
    assert compared > 20


@pytest.mark.parametrize("after_text", [True, False])
def test_ids_that_no_text_is_encoded_to_have_their_bytes_too(tokenizer, after_text):
    draw = random.Random(3)
    compared = 0
    for _ in range(200):
        ids = [draw.randrange(tokenizer.vocab_size) for _ in range(draw.randrange(1, 6))]
        parts = bytes_of_all(tokenizer, ids, after_text)
        if None in parts or parts[0] == b"":
            continue
        try:
            text = b"".join(parts).decode("utf-8")
        except UnicodeDecodeError:
            continue
        compared += 1
        assert text == shown(tokenizer, ids, after_text)
    assert compared > 25


def small(tmp_path, kind, **parts):
    vocabulary = {"byte-bpe": ["Ġa", "ðŁ", "ĺĢ", "é"], "spm-bpe": ["▁a", "▁", "<0xF0>", "a"]}
    tokens = ["<s>", *vocabulary[kind]]
    document = {
        "version": "1.0",
        "added_tokens": [added_token("<s>", 0)],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "model": {"type": "BPE", "vocab": {each: i for i, each in enumerate(tokens)}, "merges": []},
    }
    return tokenizer_of(dict(document, **parts), tmp_path)


def test_a_part_of_a_character_is_its_bytes(tmp_path):
    letters = small(tmp_path, "byte-bpe", decoder=byte_level())
    assert [letters.bytes_of(each) for each in range(6)] == [
        None,  # a special token
        b" a",
        b"\xf0\x9f",
        b"\x98\x80",
        b"\xe9",
        None,  # an id that no token has
    ]


def test_the_first_token_of_an_answer_loses_its_space_and_a_byte_token_is_a_byte(tmp_path):
    marks = small(tmp_path, "spm-bpe", decoder=SPM_DECODER)
    assert [marks.bytes_of(each) for each in range(1, 5)] == [b" a", b" ", b"\xf0", b"a"]
    assert [marks.bytes_of(each, False) for each in range(1, 5)] == [b"a", b"", b"\xf0", b"a"]


def test_what_an_end_of_word_adds_depends_on_the_next_token(tmp_path):
    ends = small(tmp_path, "spm-bpe", decoder={"type": "BPEDecoder", "suffix": "a"})
    assert [ends.bytes_of(each) for each in range(1, 4)] == [None, "▁".encode(), b"<0xF0>"]
