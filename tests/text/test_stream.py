"""A stream never shows half a character, and its chunks are the text."""

import random

import pytest

from edgeformer.text.decoders import read_decoder
from edgeformer.text.stream import TextStream
from tests.text.hard_strings import HARD_STRINGS, random_strings
from tests.text.small import added_token, small_document, tokenizer_of

END = 0  # <|endoftext|>


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return tokenizer_of(small_document(), tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def single_bytes(tmp_path_factory):
    """No merges: each token is one byte."""
    document = small_document()
    document["model"]["merges"] = []
    return tokenizer_of(document, tmp_path_factory.mktemp("bytes"))


def chunks_of(tokenizer, ids, **options):
    stream = tokenizer.stream(**options)
    return [stream.push(token_id) for token_id in ids] + [stream.flush()]


def test_joined_chunks_are_the_text_and_none_holds_half_a_character(tokenizer, single_bytes):
    for text in HARD_STRINGS + list(random_strings(seed=2, count=500)):
        for each in (tokenizer, single_bytes):
            chunks = chunks_of(each, each.encode(text))
            assert "".join(chunks) == text
            assert chunks[-1] == ""


def test_a_character_is_shown_as_soon_as_its_last_byte_is_there(single_bytes):
    ids = single_bytes.encode("aé日😀b")
    assert chunks_of(single_bytes, ids) == (
        ["a"] + ["", "é"] + ["", "", "日"] + ["", "", "", "😀"] + ["b"] + [""]
    )


def test_two_tokens_of_two_bytes_make_one_emoji(tmp_path):
    document = small_document()
    # 😀 is F0 9F 98 80, in the letters of a vocabulary ð Ł ĺ Ģ.
    document["model"]["merges"] = [["ð", "Ł"], ["ĺ", "Ģ"]]
    document["model"]["vocab"].update({"ðŁ": 900, "ĺĢ": 901})
    document["model"]["vocab"] = {
        token: token_id
        for token, token_id in document["model"]["vocab"].items()
        if token_id >= 900 or len(token) == 1
    }
    tokenizer = tokenizer_of(document, tmp_path)
    assert tokenizer.encode("😀") == [900, 901]
    assert chunks_of(tokenizer, [900, 901]) == ["", "😀", ""]


@pytest.mark.parametrize("show_special", [False, True])
def test_chunks_of_any_ids_join_to_what_decode_gives(tokenizer, single_bytes, show_special):
    source = random.Random(4)
    for each in (tokenizer, single_bytes):
        for _ in range(300):
            ids = [source.randrange(each.vocab_size) for _ in range(source.randrange(30))]
            ids = [END if source.random() < 0.1 else token_id for token_id in ids]
            whole = each.decode(ids, show_special=show_special)
            assert "".join(chunks_of(each, ids, show_special=show_special)) == whole
            stream = each.stream(show_special=show_special)
            shown = "".join(stream.push(token_id) for token_id in ids)
            # At most one unfinished character is held back.
            assert whole.startswith(shown) and len(whole) - len(shown) <= 1


def test_an_unfinished_character_at_the_end_becomes_one_mark(single_bytes):
    ids = single_bytes.encode("ok😀")[:-1]
    assert chunks_of(single_bytes, ids) == ["o", "k", "", "", "", "\ufffd"]
    assert single_bytes.decode(ids) == "ok\ufffd"


def test_special_tokens_are_hidden_unless_asked_for(tokenizer):
    ids = tokenizer.encode("one") + [END] + tokenizer.encode(" two")
    assert "".join(chunks_of(tokenizer, ids)) == "one two"
    assert "".join(chunks_of(tokenizer, ids, show_special=True)) == "one<|endoftext|> two"


def test_a_hidden_token_inside_a_character_does_not_break_it(single_bytes):
    ids = single_bytes.encode("😀")
    assert chunks_of(single_bytes, ids[:2] + [END] + ids[2:]) == ["", "", "", "", "😀", ""]


def test_a_special_token_with_any_characters_is_shown_as_written(tmp_path):
    document = small_document()
    document["added_tokens"] += [added_token("<é ü>", 900), added_token("ж", 901, special=False)]
    tokenizer = tokenizer_of(document, tmp_path)
    assert chunks_of(tokenizer, [900, 901], show_special=True) == ["<é ü>", "ж", ""]


def test_streams_of_one_tokenizer_do_not_mix(single_bytes):
    first, second = single_bytes.stream(), single_bytes.stream()
    e_acute, e_grave = single_bytes.encode("é"), single_bytes.encode("è")
    assert first.push(e_acute[0]) + second.push(e_grave[0]) == ""
    assert first.push(e_acute[1]) + second.push(e_grave[1]) == "éè"


def test_a_flushed_stream_starts_afresh(single_bytes):
    stream = single_bytes.stream()
    ids = single_bytes.encode("é")
    assert stream.push(ids[0]) == ""
    assert stream.flush() == "\ufffd"
    assert [stream.push(token_id) for token_id in ids] == ["", "é"]


class Forgetful(dict):
    def __setitem__(self, key, value):
        pass


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        {"type": "ByteLevel"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
        {"type": "BPEDecoder", "suffix": "</w>"},
        {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 2, "stop": 0},
            ],
        },
    ],
    ids=lambda value: str(value and value["type"]),
)
def test_texts_that_were_met_before_change_no_stream(decoder):
    """Streams that know what others have met, against one that never learns."""
    tokens = ["\u2581", "\u2581\u2581", "\u2581a", "b", "##c", " n't", "d</w>", "e", "\u0120f"]
    tokens += ["<0xE6>", "<0x97>", "<0xA5>", "\u00e6", "\u0139", "\u00a5", "", None, " ", "!"]
    stages, source, known = read_decoder(decoder, "tokenizer.json"), random.Random(9), {}
    for _ in range(400):
        ids = [source.randrange(len(tokens)) for _ in range(source.randrange(1, 12))]
        after = source.random() < 0.5
        found = []
        for texts in (known, Forgetful()):
            stream = TextStream(tokens.__getitem__, stages, after, texts)
            found.append([stream.push(token_id) for token_id in ids] + [stream.flush()])
            found[-1] += [stream.push(token_id) for token_id in ids] + [stream.flush()]
        assert found[0] == found[1], (ids, after)
    assert bool(known) == (decoder is None or decoder["type"] != "BPEDecoder")
