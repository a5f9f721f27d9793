"""Each family's tokenizer.json gives the ids and texts that Hugging Face's library gives."""

import functools
import itertools
import json
import random

import pytest
from tokenizers import Tokenizer

from tests.nn.text.families import document_of
from tests.text.family_parts import FAMILIES
from tests.text.hard_strings import HARD_STRINGS, random_strings
from tests.text.make_family_golden import expected, golden, model_name
from tests.text.small import tokenizer_of

TEXTS = [
    *HARD_STRINGS,
    *random_strings(seed=7, count=400),
    "<|im_start|>user\nhello<|endoftext|>",
    "a<tool> b <tool>c",
    " <unk> <|im_start|> <|im_start|>",
]
# Their vocabularies hold special tokens as any other piece. The reference finds them in a text even
# when told that special tokens are text; we do not.
WHOLE = ("unigram", "word-level")


@functools.lru_cache(maxsize=None)
def written(name):
    return json.dumps(document_of(name))


@pytest.fixture(params=list(FAMILIES))
def pair(request, tmp_path):
    """(ours, the reference) for one family."""
    text = written(request.param)
    return tokenizer_of(json.loads(text), tmp_path), Tokenizer.from_str(text)


@pytest.mark.parametrize("allow_special", [False, True])
def test_ids_equal_the_reference(pair, allow_special):
    ours, theirs = pair
    theirs.encode_special_tokens = not allow_special
    seen = set()
    for text in TEXTS:
        if not allow_special and ours.kind in WHOLE and any(t in text for t in ours.special_tokens):
            continue
        ids = ours.encode(text, allow_special=allow_special)
        assert ids == theirs.encode(text).ids, repr(text)
        seen.update(ids)
    assert len(seen) > 250


def test_no_typed_text_gives_a_control_token(pair):
    ours, _ = pair
    control = {token: each for token, each in ours.special_tokens.items() if token != "<unk>"}
    for token, text in itertools.product(control, ("%s", "a%s", "%sb", " %s ", "\n%s\n")):
        assert not set(control.values()).intersection(ours.encode(text % token))
        assert control[token] in ours.encode(text % token, allow_special=True)


@pytest.mark.parametrize("show_special", [False, True])
def test_texts_and_streams_of_encoded_texts_equal_the_reference(pair, show_special):
    ours, theirs = pair
    for text in TEXTS:
        ids = theirs.encode(text).ids
        expected = theirs.decode(ids, skip_special_tokens=not show_special)
        assert ours.decode(ids, show_special=show_special) == expected, repr(text)
        stream = ours.stream(show_special=show_special)
        assert "".join([stream.push(each) for each in ids]) + stream.flush() == expected


def test_texts_and_streams_of_any_ids_equal_the_reference(pair):
    ours, theirs = pair
    source = random.Random(8)
    for _ in range(1000):
        ids = [source.randrange(ours.vocab_size + 3) for _ in range(source.randrange(12))]
        text = ours.decode(ids)
        stream = ours.stream()
        assert "".join([stream.push(each) for each in ids]) + stream.flush() == text
        if not any(is_byte(ours.token(each)) for each in ids):
            assert text == theirs.decode(ids), ids


def is_byte(token):
    return token is not None and token.startswith("<0x")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_golden_checksums_are_those_of_this_reference(family):
    data = golden()
    assert data["checksums"][family] == expected(family, data["models"][model_name(family)])
