"""Hostile tokenizer files end in an error that says so, in little time."""

import copy
import random
import time

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text.hf_file import read_hf_file
from tests.text.family_parts import FAMILIES, document_around, part, replace
from tests.text.make_family_golden import golden, model_name
from tests.text.small import small_document

JUNK = [None, True, 0, -1, 1 << 40, 1.5, "", "a", "▁", "(", "[a-z]+", "Sequence", "NFC", "first"]
JUNK += [[], {}, [[]], ["a", "b"], {"Regex": "\\s+"}, {"String": "x"}, "x" * 1000, {"type": "NFC"}]
TEXTS = ["Hello world's 12 é", "▁a  b\n", "<|im_start|>한<tool>", "", "\x00😀"]


def nested(depth):
    value = {"type": "NFC"}
    for _ in range(depth):
        value = {"type": "Sequence", "normalizers": [value]}
    return value


def test_parts_inside_parts_without_end_are_refused():
    with pytest.raises(EdgeformerError, match="normalizer is nested more than 20 deep"):
        read_hf_file(dict(small_document(), normalizer=nested(5000)), "x")
    read_hf_file(dict(small_document(), normalizer=nested(5)), "x")


def test_a_text_does_not_grow_without_end():
    doubling = {"type": "Sequence", "normalizers": [replace("a", "aa")] * 60}
    tokenizer = read_hf_file(dict(small_document(), normalizer=doubling), "x")
    started = time.time()
    with pytest.raises(EdgeformerError, match=r"made more than 10[0-9]{3} characters of a text"):
        tokenizer.encode("aaa")
    assert time.time() - started < 5
    spelling = part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
    pre_tokenizer = {"type": "Sequence", "pretokenizers": [spelling] * 60}
    with pytest.raises(EdgeformerError, match="60 ByteLevel parts"):
        read_hf_file(dict(small_document(), pre_tokenizer=pre_tokenizer), "x")
    for long in (replace("a", "b" * 100), part("Prepend", prepend="b" * 100)):
        with pytest.raises(EdgeformerError, match=r"(content|prepend) of 100 characters"):
            read_hf_file(dict(small_document(), normalizer=long), "x")


def places(value, before=()):
    """The paths to what lies in a document, of long lists the first items only."""
    inside = []
    if isinstance(value, dict):
        inside = list(value.items())[:40]
    elif isinstance(value, list):
        inside = list(enumerate(value))[:40]
    for key, each in inside:
        yield before + (key,)
        for path in places(each, before + (key,)):
            yield path


def changed(document, source):
    """A copy in which one thing is lost or replaced."""
    document = copy.deepcopy(document)
    *before, last = source.choice(list(places(document)))
    holder = document
    for key in before:
        holder = holder[key]
    if source.random() < 0.2:
        del holder[last]
    else:
        holder[last] = source.choice(JUNK)
    return document


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_works_or_is_refused(seed):
    models = golden()["models"]
    source = random.Random(seed)
    refused = 0
    for _ in range(150):
        family = source.choice(sorted(FAMILIES))
        kind, parts = FAMILIES[family]
        document = document_around(kind, models[model_name(family)], parts)
        try:
            tokenizer = read_hf_file(changed(changed(document, source), source), "x")
        except EdgeformerError:
            refused += 1
            continue
        for text in TEXTS:
            try:
                ids = tokenizer.encode(text, allow_special=source.random() < 0.5)
            except EdgeformerError:  # no unknown token, or a text that grows
                continue
            tokenizer.decode(ids)
    assert 20 < refused < 150
