"""The character tokenizer: one id a character, and a clear word about any other."""

import pytest

from edgeformer.errors import EdgeformerError
from tests.text.small import tokenizer_of

DOCUMENT = {"kind": "char", "characters": "\n abé😀", "special_tokens": {"<|end|>": 0}}


@pytest.fixture
def tokenizer(tmp_path):
    return tokenizer_of(DOCUMENT, tmp_path)


def test_characters_take_the_ids_that_special_tokens_leave(tokenizer, tmp_path):
    assert tokenizer.encode("a b\né😀") == [3, 2, 4, 1, 5, 6]
    assert tokenizer.vocab_size == 7
    assert tokenizer.special_tokens == {"<|end|>": 0}
    last = tokenizer_of(dict(DOCUMENT, special_tokens={"<|end|>": 3}), tmp_path)
    assert last.encode("\n abé😀") == [0, 1, 2, 4, 5, 6]
    none = tokenizer_of(dict(DOCUMENT, special_tokens={}), tmp_path)
    assert none.encode("\n abé😀") == [0, 1, 2, 3, 4, 5]


def test_text_comes_back_and_streams_character_by_character(tokenizer):
    text = "ab é😀\n\nba"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    stream = tokenizer.stream()
    assert [stream.push(token_id) for token_id in ids] == list(text)
    assert stream.flush() == ""


def test_an_unknown_character_is_named_with_place_and_code_point(tokenizer):
    with pytest.raises(EdgeformerError, match=r"'ß' \(U\+00DF, number 3 of the text\).* 6 "):
        tokenizer.encode("abß")


def test_the_place_of_an_unknown_character_counts_from_the_start_of_the_text(tokenizer):
    with pytest.raises(EdgeformerError, match="number 12 of the text"):
        tokenizer.encode("aa<|end|>bbß", allow_special=True)


def test_a_typed_special_token_is_text_unless_allowed(tokenizer, tmp_path):
    with pytest.raises(EdgeformerError, match="'<'"):
        tokenizer.encode("a<|end|>")
    ids = tokenizer.encode("a<|end|>b", allow_special=True)
    assert ids == [3, 0, 4]
    assert tokenizer.decode(ids) == "ab"
    assert tokenizer.decode(ids, show_special=True) == "a<|end|>b"
    spelled = tokenizer_of(dict(DOCUMENT, characters="<|>end"), tmp_path)
    assert spelled.encode("<|end|>") == [1, 2, 4, 5, 6, 2, 3]


def test_half_a_surrogate_pair_is_refused(tokenizer):
    with pytest.raises(EdgeformerError, match=r"U\+D800"):
        tokenizer.encode("a\ud800")


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"characters": "aba"}, "'a' stands twice"),
        ({"characters": 5}, "characters is not a string"),
        ({"characters": "a\ud800"}, "surrogate"),
        ({"kind": "word"}, "kind"),
        ({"more": 1}, "more"),
        ({"special_tokens": []}, "special_tokens"),
        ({"special_tokens": {"": 0}}, "empty"),
        ({"special_tokens": {"<a>": 7}}, "7.*only 7 ids"),
        ({"special_tokens": {"<a>": -1}}, "-1"),
        ({"special_tokens": {"<a>": True}}, "True"),
        ({"special_tokens": {"<a>": "0"}}, "'0'"),
        ({"special_tokens": {"<a>": 1, "<b>": 1}}, "same id"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path, change, reason):
    with pytest.raises(EdgeformerError, match=reason):
        tokenizer_of(dict(DOCUMENT, **change), tmp_path)
