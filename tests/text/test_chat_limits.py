"""A chat template from anywhere gets no time, no memory and no attribute but what it may have."""

import json
import os
import subprocess
import sys

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text.chat import ChatTemplate, ChatTemplates
from tests.text.chat_attacks import HELLO, attacks

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ATTACKS = attacks()


@pytest.fixture(scope="module")
def outcome():
    command = [sys.executable, "-m", "tests.text.chat_attacks"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=300, check=True)
    return json.loads(done.stdout.decode("utf-8"))


def refusal(source, messages=HELLO, **options):
    with pytest.raises(EdgeformerError) as caught:
        ChatTemplate(source).render(messages, **options)
    return str(caught.value)


@pytest.mark.parametrize("index", range(len(ATTACKS)))
def test_an_attack_is_refused_quickly_and_for_what_it_does(outcome, index):
    expected, template = ATTACKS[index]
    result = outcome["results"][index]
    assert result["message"] is not None, template[:200]
    assert expected in result["message"], template[:200]
    assert len(result["message"]) < 400
    assert result["seconds"] < 10, template[
        :200
    ]  # of CPU; less than 2 on a machine that is not busy


def test_all_attacks_together_stay_below_200_megabytes(outcome):
    assert outcome["peak_mb"] < 200


def test_a_text_of_exactly_the_limit_is_rendered_and_one_more_character_is_not():
    assert ChatTemplate("{{ 'a' * 999999 }}b").render(HELLO) == "a" * 999999 + "b"
    assert "more than 1000000 characters of output" in refusal("{{ 'a' * 999999 }}bc")


def test_a_message_of_more_than_the_limit_is_refused():
    message = [{"role": "user", "content": "a" * 1000001}]
    assert "1000001 characters" in refusal("{{ messages[0].content | length }}", message)


def test_a_long_conversation_is_far_from_the_limits():
    messages = [
        {"role": ("user", "assistant")[turn % 2], "content": "word " * 100} for turn in range(999)
    ]
    source = "{% for m in messages %}{{ '<' + m.role + '>' + m.content.strip() }}{% endfor %}"
    assert len(ChatTemplate(source).render(messages)) == 999 * 499 + 500 * 6 + 499 * 11


def test_errors_name_the_template_and_the_line():
    source = "{% set a = 1 %}\n\n{{ missing.name }}\n"
    assert "chat template 'default', line 3: missing is undefined" in refusal(source)
    with pytest.raises(EdgeformerError, match=r"chat template 'rag', line 2: .*endfor"):
        ChatTemplate("\n{% for x in y %}{{ x }}", "rag")


def test_what_a_template_raises_reaches_the_user():
    source = (
        "{% if messages[0].role == 'user' %}{{ raise_exception('Start with ' ~ 7) }}{% endif %}"
    )
    assert refusal(source) == "chat template 'default' does not take these messages: Start with 7"


@pytest.mark.parametrize(
    "messages, part",
    [
        ([], "at least one message"),
        ("hi", "at least one message"),
        (["hi"], "messages are a list of dicts"),
        ([{"role": "user", "content": object()}], "hold a object; they may hold what JSON can"),
        ([{"role": "user", "content": b"hi"}], "hold a bytes"),
        ([{"role": "user", "content": 1 << 2000}], "an integer of 2001 bits"),
    ],
)
def test_messages_that_are_none_are_refused(messages, part):
    assert part in refusal("{{ messages }}", messages)


def test_tools_and_documents_are_lists_of_dicts():
    assert "tools are a list of dicts" in refusal("x", tools=[len])
    assert "documents are a list of dicts" in refusal("x", documents="text")


def test_messages_that_hold_themselves_are_refused():
    messages = [{"role": "user", "content": "x"}]
    messages[0]["again"] = messages
    assert "nested more than 50 deep" in refusal("x", messages)


def test_what_the_caller_gave_is_not_changed():
    messages = [{"role": "user", "content": "x", "name": None, "thinking": "t"}]
    before = json.dumps(messages)
    ChatTemplate("{{ messages }}").render(messages)
    assert json.dumps(messages) == before


def test_templates_are_chosen_by_name_or_by_need():
    templates = ChatTemplates({"default": "d", "tool_use": "t", "rag": "r"})
    assert sorted(templates) == ["default", "rag", "tool_use"]
    assert templates.choose().render(HELLO) == "d"
    assert templates.choose(tools=[]).render(HELLO) == "t"
    assert templates.choose("rag", tools=[]).render(HELLO) == "r"
    assert ChatTemplates("d").choose(tools=[{}]).render(HELLO) == "d"
    listed = ChatTemplates([{"name": "default", "template": "l"}])
    assert listed["default"].render(HELLO) == "l"
    with pytest.raises(EdgeformerError, match="no chat template 'x'; choose one of: default, rag"):
        templates.choose("x")


@pytest.mark.parametrize("source", [None, {}, [], [{"name": "x"}], ["x"], {"default": 3}])
def test_what_is_no_template_is_refused(source):
    with pytest.raises(EdgeformerError, match="chat template"):
        ChatTemplates(source)
