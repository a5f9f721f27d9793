"""A tokenizer made for a new model: the same every time, and it loses no text."""

import json
import os
import subprocess
import sys

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.nn.tokenizer_training import END_OF_TEXT, make_char_tokenizer, train_byte_bpe
from edgeformer.text import load_tokenizer
from tests.text.hard_strings import HARD_STRINGS

TEXT = "\n".join(HARD_STRINGS)


def loaded(text, folder):
    path = folder / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    return load_tokenizer(path)


@pytest.mark.parametrize("vocab_size", [257, 300, 1000])
def test_a_trained_vocabulary_has_the_size_asked_for_and_loses_no_text(tmp_path, vocab_size):
    tokenizer = loaded(train_byte_bpe(TEXT, vocab_size), tmp_path)
    assert tokenizer.vocab_size == vocab_size
    assert tokenizer.special_tokens == {END_OF_TEXT: 0}
    for text in [*HARD_STRINGS, "never seen: \U0001fae8 \u1f00"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_larger_vocabulary_gives_fewer_tokens(tmp_path):
    counts = [len(loaded(train_byte_bpe(TEXT, size), tmp_path).encode(TEXT)) for size in (257, 600)]
    assert counts[0] == len(TEXT.encode())
    assert counts[1] < 0.8 * counts[0]


def test_training_is_the_same_in_every_process():
    program = (
        "import hashlib\n"
        "from edgeformer.nn.tokenizer_training import train_byte_bpe\n"
        "from tests.text.hard_strings import HARD_STRINGS\n"
        "text = train_byte_bpe('\\n'.join(HARD_STRINGS), 800)\n"
        "print(hashlib.sha256(text.encode()).hexdigest())\n"
    )
    found = set()
    for seed, threads in (("1", "1"), ("2", "4")):
        environment = dict(os.environ, PYTHONHASHSEED=seed, RAYON_NUM_THREADS=threads)
        found.add(subprocess.check_output([sys.executable, "-c", program], env=environment))
    assert len(found) == 1


def test_special_tokens_in_the_text_teach_no_merges(tmp_path):
    text = "<|endoftext|>".join(["one two"] * 500)
    vocabulary = json.loads(train_byte_bpe(text, 280))["model"]["vocab"]
    assert "one" in vocabulary
    assert not [token for token in vocabulary if "endof" in token and token != END_OF_TEXT]
    characters = loaded(make_char_tokenizer(text), tmp_path)
    assert characters.vocab_size == len(set("one two")) + 1
    assert characters.encode(text, allow_special=True).count(0) == 499


def test_special_tokens_are_those_asked_for(tmp_path):
    names = ("<a>", "<b>")
    for text in (train_byte_bpe(TEXT, 300, names), make_char_tokenizer(TEXT, names)):
        assert loaded(text, tmp_path).special_tokens == {"<a>": 0, "<b>": 1}
    for text in (train_byte_bpe(TEXT, 300, ()), make_char_tokenizer(TEXT, ())):
        assert loaded(text, tmp_path).special_tokens == {}


def test_a_vocabulary_below_its_bytes_is_refused_with_both_numbers():
    with pytest.raises(EdgeformerError, match=r"vocab_size is 256.* at least 257"):
        train_byte_bpe(TEXT, 256)


def test_a_character_tokenizer_knows_each_character_of_its_text(tmp_path):
    tokenizer = loaded(make_char_tokenizer(TEXT), tmp_path)
    assert tokenizer.vocab_size == len(set(TEXT.replace(END_OF_TEXT, ""))) + 1
    for text in HARD_STRINGS:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_character_tokenizer_of_no_text_is_refused():
    with pytest.raises(EdgeformerError, match="empty"):
        make_char_tokenizer("")
