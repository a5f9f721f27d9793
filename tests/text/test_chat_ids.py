"""A chat becomes the ids of `transformers`, on tokenizers of every kind and on every Python."""

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text.chat import ChatTemplates
from edgeformer.text.chat_prompt import chat_ids
from tests.text.chat_cases import NOW
from tests.text.chat_id_cases import (
    CASES,
    checksum,
    controls,
    conversations,
    document_of,
    golden,
    named_tokens,
    template_of,
    typed,
)
from tests.text.small import tokenizer_of

GOLDEN = golden()
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(params=sorted(CASES))
def case(request):
    return request.param


@pytest.fixture
def ids_of(case, tmp_path):
    """ids_of(messages, **options), None where the template refuses the messages."""
    chat = chat_of(case, tmp_path)

    def ids(messages, **options):
        try:
            return chat(messages, **options)
        except EdgeformerError:
            return None

    return ids


def chat_of(case, folder):
    tokenizer = tokenizer_of(document_of(case), folder)
    named = ChatTemplates(template_of(case), named_tokens(case))
    return lambda messages, **options: chat_ids(tokenizer, named, messages, now=NOW, **options)


def test_ids_are_those_of_transformers(case, ids_of):
    found = conversations(case)
    assert sorted(found) == sorted(GOLDEN[case])
    assert sum(each is not None for each in GOLDEN[case].values()) > 6
    wrong = []
    for name, (messages, options) in found.items():
        ids = ids_of(messages, **options)
        if (None if ids is None else checksum(ids)) != GOLDEN[case][name]:
            wrong.append(name)
    assert wrong == []


def test_typed_control_tokens_add_no_control_ids(case, ids_of):
    """Whoever types them: as many as in the same chat of harmless words."""
    ids = {entry["content"]: entry["id"] for entry in document_of(case)["added_tokens"]}
    special = {ids[content] for content, _ in controls(case)}
    evil = typed(case)
    if ids_of(evil) is None:  # this template wants no system message
        evil = evil[1:]
    found, expected = ids_of(evil), ids_of([dict(each, content="hello") for each in evil])
    assert [i for i in found if i in special] == [i for i in expected if i in special]
    assert len(found) > len(expected)


@pytest.mark.parametrize("case", sorted(name for name, parts in CASES.items() if parts[5]))
def test_a_begin_token_stands_before_a_chat_only_where_the_template_writes_it(case, ids_of):
    before = CASES[case][5]  # what this tokenizer puts before a text
    begin = {e["content"]: e["id"] for e in document_of(case)["added_tokens"]}[before]
    ids = ids_of(HELLO)
    written = "bos_token" in template_of(case)
    assert ids.count(begin) == ids[:1].count(begin) == int(written)


def test_some_templates_write_the_begin_token_and_some_leave_it_out():
    begun = {"bos_token" in template_of(case) for case, parts in CASES.items() if parts[5]}
    assert begun == {True, False}
