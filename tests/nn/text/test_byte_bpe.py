"""Byte-level BPE as we train it gives what Hugging Face `tokenizers` gives."""

import itertools
import json
import random

import pytest
from tokenizers import AddedToken, Tokenizer, pre_tokenizers

from edgeformer.nn.tokenizer_training import train_byte_bpe
from edgeformer.text import load_tokenizer
from tests.text import make_golden
from tests.text.hard_strings import HARD_STRINGS, random_strings
from tests.text.small import golden_ids, small_document

TEXT = "\n".join(HARD_STRINGS)


@pytest.fixture(scope="module", params=[280, 500, 1500])
def trained(request):
    """The text of a tokenizer.json: nearly bytes only, then with merges inside most words."""
    return train_byte_bpe(TEXT, request.param)


def ours_of(reference, folder):
    """The same tokenizer, through the file that the reference saves."""
    path = folder / "tokenizer.json"
    reference.save(str(path))
    return load_tokenizer(path)


@pytest.mark.parametrize("add_prefix_space", [False, True])
@pytest.mark.parametrize("use_regex", [False, True])
def test_ids_and_text_equal_the_reference(trained, add_prefix_space, use_regex, tmp_path):
    reference = Tokenizer.from_str(trained)
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space, use_regex=use_regex)
    ours = ours_of(reference, tmp_path)
    reference.encode_special_tokens = True
    for text in HARD_STRINGS + list(random_strings(seed=add_prefix_space, count=1000)):
        ids = ours.encode(text)
        assert ids == reference.encode(text).ids, repr(text)
        assert ours.decode(ids) == reference.decode(ids), repr(text)


@pytest.mark.parametrize("show_special", [False, True])
def test_text_of_any_ids_equals_the_reference(trained, show_special, tmp_path):
    reference = Tokenizer.from_str(trained)
    ours = ours_of(reference, tmp_path)
    source = random.Random(5)
    for _ in range(2000):
        ids = [source.randrange(ours.vocab_size) for _ in range(source.randrange(20))]
        expected = reference.decode(ids, skip_special_tokens=not show_special)
        assert ours.decode(ids, show_special=show_special) == expected


FLAGS = list(itertools.product([False, True], repeat=4))


@pytest.mark.parametrize("special, normalized, lstrip, rstrip", FLAGS)
@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_added_tokens_equal_the_reference(
    special, normalized, lstrip, rstrip, add_prefix_space, tmp_path
):
    reference = Tokenizer.from_str(train_byte_bpe(TEXT, 300))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space)
    flags = {"normalized": normalized, "lstrip": lstrip, "rstrip": rstrip}
    contents = ["<|im_start|>", "<|im", "start|>us", "  ", "😀", "l's"]
    add = reference.add_special_tokens if special else reference.add_tokens
    add([AddedToken(content, **flags) for content in contents])
    reference.add_tokens([AddedToken("user", normalized=True), "\n\n", "x<|"])
    ours = ours_of(reference, tmp_path)

    pieces = [
        *contents,
        "user",
        "\n\n",
        "x<|",
        "<|endoftext|>",
        " ",
        "\n",
        "\t",
        "a",
        "'s",
        "\u3000",
    ]
    source = random.Random(6)
    texts = ["".join(source.choices(pieces, k=source.randrange(12))) for _ in range(400)]
    texts += ["<|im_start|>user", "<|im_start|> user", " <|im_start|>\nuser", *HARD_STRINGS]
    for allow_special in (False, True):
        reference.encode_special_tokens = not allow_special
        for text in texts:
            ids = ours.encode(text, allow_special=allow_special)
            assert ids == reference.encode(text).ids, repr(text)


def test_ignored_merges_equal_the_reference(tmp_path):
    document = json.loads(train_byte_bpe(TEXT, 500))
    document["model"]["ignore_merges"] = True
    # Words that no merge makes, at the end of the vocabulary.
    words = ["Ġuniversally", "acknowledged", "!!!!!", "ðŁĺĢ"]
    document["model"]["vocab"].update({word: 500 + i for i, word in enumerate(words)})
    reference = Tokenizer.from_str(json.dumps(document))
    ours = ours_of(reference, tmp_path)
    texts = [*HARD_STRINGS, "acknowledged universally!!!!! 😀"]
    found = {token_id for text in texts for token_id in ours.encode(text)}
    assert {500, 501, 502, 503} <= found
    reference.encode_special_tokens = True
    for text in texts:
        assert ours.encode(text) == reference.encode(text).ids, repr(text)


def test_merges_that_stand_twice_or_lead_to_one_token_equal_the_reference(tmp_path):
    document = json.loads(train_byte_bpe("x", 257))
    vocab = document["model"]["vocab"]
    merges = [["a", "b"], ["b", "c"], ["ab", "c"], ["a", "bc"], ["a", "b"], ["c", "a"], ["b", "a"]]
    merges += [["ab", "ab"], ["abc", "abc"], ["b", "c"], ["a", "ba"], ["ca", "ca"]]
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    document["model"]["merges"] = merges
    reference = Tokenizer.from_str(json.dumps(document))
    ours = ours_of(reference, tmp_path)
    for letters in itertools.product("abc", repeat=8):
        text = "".join(letters)
        assert ours.encode(text) == reference.encode(text).ids, text


def test_the_golden_ids_are_those_of_this_reference():
    assert make_golden.expected(json.dumps(small_document())) == golden_ids()


def test_the_golden_tokenizer_is_what_training_gives():
    assert json.loads(make_golden.small_tokenizer()) == small_document()
