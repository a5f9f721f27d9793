"""Chat templates: the text of `transformers`, byte for byte, and nothing but that text."""

import json
import os

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text.chat import ChatTemplate
from tests.text.chat_cases import (
    CONVERSATIONS,
    FOLDER,
    NOW,
    SPECIAL_TOKENS,
    VALUES,
    scraps,
    templates,
)

with open(os.path.join(FOLDER, "golden.json"), encoding="utf-8") as _file:
    GOLDEN = json.load(_file)
TEMPLATES = templates()
HELLO = [{"role": "user", "content": "hi"}]


def render(source, messages=None, **options):
    template = ChatTemplate(source, special_tokens=SPECIAL_TOKENS)
    return template.render(HELLO if messages is None else messages, now=NOW, **options)


def refusal(source, messages=None, **options):
    with pytest.raises(EdgeformerError) as caught:
        render(source, messages, **options)
    return str(caught.value)


def check(golden, source, messages, options):
    if isinstance(golden, dict):
        refusal(source, messages, **options)
    else:
        assert render(source, messages, **options) == golden


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_every_conversation_reads_as_transformers_renders_it(name):
    assert sorted(GOLDEN["templates"][name]) == sorted(CONVERSATIONS)
    for case, (messages, options) in CONVERSATIONS.items():
        check(GOLDEN["templates"][name][case], TEMPLATES[name], messages, options)
        if messages == HELLO:
            assert isinstance(GOLDEN["templates"][name][case], str)


@pytest.mark.parametrize("index", range(len(scraps())))
def test_every_scrap_of_template_reads_as_transformers_renders_it(index):
    assert len(GOLDEN["scraps"]) == len(scraps())
    assert isinstance(GOLDEN["scraps"][index], str)
    assert render(scraps()[index], **VALUES) == GOLDEN["scraps"][index]
