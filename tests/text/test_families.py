"""Each family's tokenizer gives Hugging Face's ids and texts, on every Python."""

import pytest

from tests.text.family_parts import FAMILIES, document_around
from tests.text.hard_strings import HARD_STRINGS
from tests.text.make_family_golden import checksum, golden, model_name
from tests.text.small import tokenizer_of

# Their space is the end of a word: where a prompt ends with one, it is the prompt's.
SPACE_BEHIND = ("clip", "openai-gpt")


@pytest.fixture(scope="module")
def data():
    return golden()


@pytest.fixture(params=sorted(FAMILIES))
def family(request):
    return request.param


def test_ids_and_texts_are_those_of_hugging_face(data, family, tmp_path):
    kind, parts = FAMILIES[family]
    document = document_around(kind, data["models"][model_name(family)], parts)
    tokenizer = tokenizer_of(document, tmp_path)
    sums = data["checksums"][family]
    assert len(sums) == len(HARD_STRINGS) >= 300
    wrong = []
    for text, expected in zip(HARD_STRINGS, sums):
        ids = tokenizer.encode(text, allow_special=True)
        stream = tokenizer.stream()
        shown = "".join([stream.push(each) for each in ids]) + stream.flush()
        if checksum(ids, shown) != expected or shown != tokenizer.decode(ids):
            wrong.append(text)
    assert wrong == []


def test_a_stream_behind_a_prompt_loses_no_space(data, family, tmp_path):
    """Wherever a text is cut into prompt and answer, but inside a character."""
    kind, parts = FAMILIES[family]
    document = document_around(kind, data["models"][model_name(family)], parts)
    tokenizer = tokenizer_of(document, tmp_path)
    spaces = 0
    for text in HARD_STRINGS[::7]:
        ids = tokenizer.encode(text)[:40]
        whole = tokenizer.decode(ids)
        for cut in range(1, len(ids)):
            before = tokenizer.decode(ids[:cut])
            if not before or "\ufffd" in before + whole:
                continue
            stream = tokenizer.stream(after_text=True)
            after = "".join([stream.push(each) for each in ids[cut:]]) + stream.flush()
            behind = before + " " + after == whole if family in SPACE_BEHIND else False
            assert behind or before + after == whole, (text, cut)
            spaces += " " in after[:2]
    assert spaces > 0 or family in SPACE_BEHIND
