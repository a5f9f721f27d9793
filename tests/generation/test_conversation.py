"""Conversations on a tiny real model: what each turn asks, computes, keeps and leaves out."""

import json
import os

import numpy as np
import pytest

import edgeformer
from edgeformer import EdgeformerError
from edgeformer.generation.cache import respelled
from edgeformer.text.byte_letters import LETTER_OF
from tests import bundles
from tests.generation.test_cache import Watched
from tests.test_chat import TURNS
from tests.test_chat import bundle_of as chat_of

# Characters, so that an answer's text is its tokens; 32 rows.
SHORT = (
    "{% for m in messages %}{{ m.role[0] }}{{ m.content }}|{% endfor %}"
    "{% if add_generation_prompt %}a{% endif %}"
)


def bundle_of(folder, template=SHORT):
    path = bundles.copied(bundles.LEARNED, folder)
    bundles.edited(path, lambda data: data.update(chat_templates={"default": "chat.jinja"}))
    bundles.replace_file(path, "chat.jinja", template.encode("ascii"))
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return bundle_of(tmp_path_factory.mktemp("chat"))


@pytest.fixture
def model(path):
    with edgeformer.load(path, threads=1) as loaded:
        loaded._eos_ids = frozenset()
        yield loaded


def said(answer):
    return "".join(step.text for step in answer)


def test_a_turn_computes_only_what_is_new(model):
    watched, chat = Watched(model), model.chat()
    first = said(chat.send("hi", max_new_tokens=4))
    fed = sum(len(ids) for ids, _ in watched.steps)
    assert fed == len("uhi|a") + 3  # the last token of an answer has no row
    del watched.steps[:]
    answer = chat.send("ho", max_new_tokens=1)
    said(answer)
    positions = [position for _, places in watched.steps for position in places]
    whole = "uhi|a%s|uho|a" % first
    assert positions == list(range(len("uhi|a") + 3, len(whole)))
    assert answer.stats.prompt_tokens == len(whole)
    assert answer.stats.reused_tokens == len("uhi|a") + 3
    assert model.cached_ids == model.tokenizer.encode(whole)
    assert watched.fed(model.tokenizer.encode(whole), reuse=True) == [len(whole) - 1]


def test_turns_give_the_tokens_of_whole_prompts(model):
    for reuse in ("all", "exact", "none"):
        chat = model.chat("be", reuse=reuse)
        tokens = []
        for text in ("hi", "ho"):
            answer = chat.send(text, max_new_tokens=4)
            tokens.append([step.token for step in answer])
            asked = model.chat_ids([*chat.messages[:-1]])
            fresh = model.generate(asked, max_new_tokens=4, reuse=False, after_text=False)
            assert tokens[-1] == list(fresh.tokens)
        assert tokens[0] != tokens[1]


def test_an_answer_stands_alone_and_keeps_no_space_at_its_start(model):
    begun, stream = [], model.tokenizer.stream

    def noted(show_special=False, after_text=False):
        begun.append(after_text)
        return stream(show_special, after_text)

    model.tokenizer.stream = noted
    said(model.chat().send("hi", max_new_tokens=1))
    said(model.stream(messages=[{"role": "user", "content": "hi"}], max_new_tokens=1))
    said(model.stream("hi", max_new_tokens=1))
    assert begun == [False, False, True]


def test_messages_are_what_was_said_and_what_was_shown(model):
    chat = model.chat("be")
    assert (chat.system, chat.messages) == ("be", [{"role": "system", "content": "be"}])
    answer = chat.send("hi", max_new_tokens=3)
    assert len(chat.messages) == 1  # it comes with the answer
    text = said(answer)
    assert answer.text == text
    assert chat.messages[1:] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": text},
    ]
    stopped = chat.send("ho", max_new_tokens=9, stop=said(model.chat("no").send("x"))[:1] or "x")
    said(stopped)
    assert chat.messages[-1] == {"role": "assistant", "content": stopped.text}


def test_a_template_that_strips_what_was_said_only_costs_its_rows(tmp_path):
    stripping = SHORT.replace("m.content", "(m.content if loop.last else '?')")
    with edgeformer.load(bundle_of(tmp_path, stripping), threads=1) as model:
        model._eos_ids = frozenset()
        watched, chat = Watched(model), model.chat()
        said(chat.send("hi", max_new_tokens=4))
        del watched.steps[:]
        answer = chat.send("ho", max_new_tokens=1)
        said(answer)
        assert model.cached_ids == model.tokenizer.encode("u?|a?|uho|a")
        assert [ids for ids, _ in watched.steps] == [model.tokenizer.encode("?|a?|uho|a")]
        assert answer.stats.reused_tokens == 1


def spelled(tokenizer, text):
    """A text in tokens of one byte each."""
    return [
        next(i for i in range(tokenizer.vocab_size) if tokenizer.token(i) == LETTER_OF[byte])
        for byte in text.encode("utf-8")
    ]


def test_an_answer_in_other_tokens_than_the_tokenizers_keeps_its_rows(tmp_path):
    template = TURNS.replace(": {{", ":{{")
    with edgeformer.load(chat_of(tmp_path, default=template), threads=1) as model:
        model._eos_ids = frozenset()
        letters = spelled(model.tokenizer, "the other é")
        assert letters != model.tokenizer.encode("the other é")
        chat = model.chat()
        said(chat.send("the cat", forced_tokens=letters, max_new_tokens=len(letters)))
        assert chat.messages[-1]["content"] == "the other é"
        for count, text in enumerate(["he", "a"], 1):
            before = model.cached_ids
            answer = chat.send(text, max_new_tokens=1)
            said(answer)
            # all but the beginning of a character, whose other byte has no row
            assert len(before) - 1 <= answer.stats.reused_tokens <= len(before)
            asked = {"role": "user", "content": text}
            rendered = model.chat_ids([*chat.messages[: 2 * count], asked])
            assert model.cached_ids != rendered
            decode = model.tokenizer.decode
            assert decode(model.cached_ids, True) == decode(rendered, True)


def test_a_typed_control_token_is_no_other_spelling_of_the_real_one():
    def bytes_of(token):
        return {0: None, 1: b"a", 2: b"b", 3: b"ab", 4: b"abc", 5: b"", 6: b"c"}[token]

    for held, ids, found in [
        ([1, 2], [3, 6], [1, 2, 6]),
        ([3, 6], [1, 2, 6, 0], [3, 6, 0]),
        ([1, 2, 0, 3], [3, 0, 1, 2, 6], [1, 2, 0, 3, 6]),
        ([0, 1], [3], [3]),
        ([3], [0, 1], [0, 1]),
        ([1, 0], [3], [3]),
        ([3, 3], [1, 2, 6], [3, 6]),
        ([4, 1], [3, 1], [3, 1]),  # "abc" and "aba"
        ([3], [4], [4]),  # ends inside a token
        ([4], [3], [3]),
        ([5, 1], [1, 2], [5, 1, 2]),
        ([], [1], [1]),
        ([1, 2, 6], [], []),
    ]:
        assert respelled(held, ids, bytes_of) == found


def test_an_answer_that_is_cut_stays_as_far_as_it_was_shown(model):
    chat = model.chat()
    answer = chat.send("hi")
    shown = next(answer).text + next(answer).text
    answer.close()
    assert chat.messages[-1]["content"] == shown
    assert answer.finish_reason == "cancelled"
    answer = chat.send("ho")
    shown = next(answer).text
    chat.send("hey")  # cancels the one that is open
    assert chat.messages[-1]["content"] == shown
    assert len(chat.messages) == 4


def test_ctrl_c_in_a_step_keeps_what_was_shown(model):
    chat = model.chat()
    answer = chat.send("hi")
    shown = next(answer).text
    step = model.backend.step

    def interrupted(*arguments):
        step(*arguments)
        raise KeyboardInterrupt

    model.backend.step = interrupted
    with pytest.raises(KeyboardInterrupt):
        next(answer)
    model.backend.step = step
    assert chat.messages[-1]["content"] == shown
    whole = model.chat_ids([*chat.messages, {"role": "user", "content": "ho"}])
    answer = chat.send("ho", max_new_tokens=1)
    said(answer)
    assert answer.stats.reused_tokens == len("uhi|a") + 1
    assert model.cached_ids == whole


def test_an_answer_without_a_token_or_with_an_error_leaves_no_trace(model):
    chat = model.chat()
    chat.send("hi").close()
    said(chat.send("hi", deadline_s=1e-9))
    assert chat.messages == []
    answer = chat.send("hi")
    next(answer)
    model.truncate(0)  # takes its cache
    with pytest.raises(EdgeformerError):
        next(answer)
    assert chat.messages == []
    said(chat.send("hi", max_new_tokens=2))
    assert len(chat.messages) == 2


def test_rewind_takes_back_turns_and_their_rows_are_reused_up_to_there(model):
    chat = model.chat("s")
    for text in ("a", "b", "c"):
        said(chat.send(text, max_new_tokens=2))
    kept = list(chat.messages)
    taken = chat.rewind(np.int64(2))
    assert (taken, chat.messages) == (kept[3:], kept[:3])
    answer = chat.send("z", max_new_tokens=1)
    said(answer)
    assert answer.stats.reused_tokens >= len("ss|ua|a..|u")
    with pytest.raises(EdgeformerError, match="2 turns; 3 cannot"):
        chat.rewind(3)
    with pytest.raises(EdgeformerError):
        chat.rewind(0)
    with pytest.raises(EdgeformerError, match=r"1\.0 cannot"):
        chat.rewind(1.0)
    chat.reset()
    assert chat.messages == kept[:1]
    chat.system = None
    assert chat.messages == []
    with pytest.raises(EdgeformerError):
        chat.rewind()


def test_the_system_message_can_change_in_between(model):
    chat = model.chat()
    said(chat.send("a", max_new_tokens=2))
    chat.system = "x"
    assert [message["role"] for message in chat.messages] == ["system", "user", "assistant"]
    chat.system = "y"
    assert chat.system == "y"
    said(chat.send("b", max_new_tokens=1))
    text = model.tokenizer.decode(model.cached_ids)
    assert text.startswith("sy|ua|a")


def test_a_full_context_leaves_the_oldest_turns_out_and_goes_on(model):
    chat = model.chat("s")
    left_out, prompts = [], []
    for _ in range(9):
        answer = chat.send("abc", max_new_tokens=4)
        text = said(answer)
        prompts.append(answer.stats.prompt_tokens)
        left_out.append(chat.left_out)
        assert answer.finish_reason == "length", text
    assert len(chat.messages) == 19  # nothing is lost
    # a turn has 11 tokens: a third one and its answer would not fit, and one is more than half
    assert prompts == [9, 20, 9, 20, 9, 20, 9, 20, 9]
    assert left_out == [0, 0, 4, 4, 8, 8, 12, 12, 16]
    assert model.tokenizer.decode(model.cached_ids).startswith("ss|uabc|a")


def test_a_conversation_of_thousands_of_turns_goes_on(model):
    rendered, chat_ids = [], model.chat_ids

    def counted(messages, **more):
        rendered.append(len(messages))
        return chat_ids(messages, **more)

    model.chat_ids = counted
    turn = [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "defg"}]
    chat = model.chat("s", messages=turn * 20000)
    for count in range(3):
        said(chat.send("abc", max_new_tokens=4))
        # what is left has room for another turn, and then once more all but a question is left out
        assert chat.left_out == (40000, 40000, 40004)[count]
    assert len(chat.messages) == 40007
    assert max(rendered) < 400 and len(rendered) < 40


def test_a_question_that_never_fits_is_refused_with_both_numbers(model):
    chat = model.chat()
    said(chat.send("hi", max_new_tokens=2))
    with pytest.raises(EdgeformerError, match=r"43 tokens, the bundle's capacity is 32"):
        chat.send("x" * 40)
    assert len(chat.messages) == 2
    said(chat.send("x" * 26))  # no room for much, and it is asked
    assert chat.left_out == 2


def test_a_saved_conversation_goes_on_elsewhere(model, path, tmp_path):
    chat = model.chat("s")
    said(chat.send("hé"[:1] + "é", max_new_tokens=3))
    file = str(tmp_path / "talk.json")
    chat.save(file)
    assert os.listdir(str(tmp_path)) == ["talk.json"]
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    assert "é" in text
    assert json.loads(text) == {"format": 1, "messages": chat.messages}
    wanted = said(chat.send("ho", max_new_tokens=3))
    with edgeformer.load(path, threads=1) as other:
        other._eos_ids = frozenset()
        again = other.chat()
        again.load(file)
        assert again.messages == chat.messages[:-2]
        assert said(again.send("ho", max_new_tokens=3)) == wanted


@pytest.mark.parametrize(
    "content, named",
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100000, "not JSON"),
        (b"[]", "no saved conversation"),
        (b'{"messages": []}', "no saved conversation"),
        (b'{"format": 2, "messages": []}', "format 2"),
        (b'{"format": true, "messages": []}', "format True"),
        (b'{"format": 1, "messages": {}}', "dict, not a list"),
        (b'{"format": 1, "messages": [7]}', "message 0"),
        (b'{"format": 1, "messages": [{"role": "user"}]}', "no text"),
        (b'{"format": 1, "messages": [{"role": 3, "content": "x"}]}', "message 0"),
        (
            b'{"format": 1, "messages": [{"role": "user", "content": "x"},'
            b' {"role": "system", "content": "y"}]}',
            "must be the first",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_conversation_is_refused_and_changes_nothing(
    model, tmp_path, content, named
):
    chat = model.chat("s")
    file = tmp_path / "talk.json"
    file.write_bytes(content)
    with pytest.raises(EdgeformerError) as caught:
        chat.load(str(file))
    assert named in str(caught.value)
    assert str(file) in str(caught.value)
    assert chat.system == "s"


def test_files_that_cannot_be_read_or_written_are_named(model, tmp_path):
    chat = model.chat("s")
    for path in (str(tmp_path), str(tmp_path / "no" / "talk"), "a\0b"):
        with pytest.raises(EdgeformerError):
            chat.load(path)
        with pytest.raises(EdgeformerError):
            chat.save(path)
    assert os.listdir(str(tmp_path)) == []
    chat.messages.append({"role": "user", "content": "\udcff"})
    with pytest.raises(EdgeformerError, match="UTF-8"):
        chat.save(str(tmp_path / "talk.json"))
    assert os.listdir(str(tmp_path)) == []


def test_a_bundle_without_a_template_and_wrong_words_are_refused_at_once(model):
    with edgeformer.load(bundles.LEARNED, threads=1) as plain, pytest.raises(EdgeformerError) as no:
        plain.chat()
    assert "no chat template" in str(no.value)
    with pytest.raises(EdgeformerError):
        model.chat(reuse="some")
    with pytest.raises(EdgeformerError):
        model.chat(7)
    chat = model.chat()
    with pytest.raises(EdgeformerError, match="must be text"):
        chat.send(b"hi")
    with pytest.raises(EdgeformerError, match="max_tokens"):
        chat.send("hi", max_tokens=4)
    assert chat.messages == []
