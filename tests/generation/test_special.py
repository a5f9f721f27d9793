"""Special tokens in a stream's text: hidden, unless asked for."""

import pytest

import edgeformer
from tests import bundles
from tests.scripted import ScriptedBackend
from tests.test_cli import run

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def model():
    """A real tokenizer behind a script: a, the end token, and a special token in between."""
    with edgeformer.load(bundles.ROPE, threads=1) as loaded:
        yield loaded


def answer(model, words, **asked):
    ids = [model.tokenizer.encode(word, allow_special=True)[0] for word in words]
    kept, model.backend = model.backend, ScriptedBackend(2, ids)
    try:
        return model.generate([5, 6], max_new_tokens=len(ids), **asked)
    finally:
        model.backend = kept


def test_the_end_token_has_a_text_only_where_special_tokens_are_shown(model):
    for asked, text in [({}, "the"), ({"show_special": True}, "the" + END)]:
        found = answer(model, ["the", END], **asked)
        assert (found.text, found.finish_reason) == (text, "stop")


def test_a_special_token_inside_an_answer_is_hidden_or_shown(model):
    model._eos_ids, kept = frozenset(), model._eos_ids
    try:
        for asked, text in [({}, "thethe"), ({"show_special": True}, "the" + END + "the")]:
            assert answer(model, ["the", END, "the"], **asked).text == text
        # ... and what is shown can be a stop string
        asked = {"show_special": True, "stop": "<|end"}
        found = answer(model, ["the", END, "the"], **asked)
        assert (found.text, found.finish_reason) == ("the", "stop_string")
    finally:
        model._eos_ids = kept


def test_the_option_reaches_the_text():
    words = ["generate", bundles.ROPE, "the", "--force", "0", "--max-new-tokens", "5"]
    assert run(*words)[1] == b"\n"
    assert run(*words, "--show-special")[1] == END.encode("ascii") + b"\n"
