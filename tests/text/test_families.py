"""Each family's tokenizer gives Hugging Face's ids and texts, on every Python."""

import pytest

from tests.text.family_parts import FAMILIES, document_around
from tests.text.hard_strings import HARD_STRINGS
from tests.text.make_family_golden import checksum, golden, model_name
from tests.text.small import tokenizer_of


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
