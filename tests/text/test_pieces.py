"""SentencePiece-style vocabularies: bytes as tokens, the space in front, what stands around."""

import time

import pytest

from tests.text.family_parts import FAMILIES, document_around
from tests.text.make_family_golden import golden, model_name
from tests.text.small import added_token, tokenizer_of

HANGUL = ["<0xED>", "<0x95>", "<0x9C>"]  # 한


@pytest.fixture(scope="module")
def open_family(tmp_path_factory):
    models = golden()["models"]

    def opened(family, **changes):
        kind, parts = FAMILIES[family]
        document = dict(document_around(kind, models[model_name(family)], parts), **changes)
        return tokenizer_of(document, tmp_path_factory.mktemp("family"))

    return opened


def ids_of(tokenizer, tokens):
    ids = {tokenizer.token(each): each for each in range(tokenizer.vocab_size)}
    return [ids[token] for token in tokens]


def chunks_of(tokenizer, ids, **options):
    stream = tokenizer.stream(**options)
    return [stream.push(each) for each in ids] + [stream.flush()]


@pytest.mark.parametrize("family", ["llama2", "llama2-new", "mistral-v3", "gemma"])
def test_a_character_of_three_byte_tokens_is_shown_when_whole(open_family, family):
    tokenizer = open_family(family)
    ids = ids_of(tokenizer, [*HANGUL, "a", *HANGUL])
    assert chunks_of(tokenizer, ids) == ["", "", "한", "a", "", "", "한", ""]
    # Every way to cut it gives the whole text's characters.
    for count in range(len(ids)):
        shown = "".join(chunks_of(tokenizer, ids[:count]))
        assert shown == tokenizer.decode(ids[:count])


def test_wrong_byte_tokens_become_a_mark_each_and_spoil_no_other(open_family):
    tokenizer = open_family("gemma")
    ids = ids_of(tokenizer, [*HANGUL, "<0xFF>", *HANGUL[:2], "a", *HANGUL[:1]])
    assert chunks_of(tokenizer, ids) == [
        "",
        "",
        "한",
        "\ufffd",
        "",
        "",
        "\ufffd\ufffda",
        "",
        "\ufffd",
    ]
    assert tokenizer.decode(ids) == "한\ufffd\ufffd\ufffda\ufffd"


def test_only_the_first_space_of_the_whole_text_is_stripped(open_family):
    for family in ("llama2", "llama2-new", "mistral-v3"):
        tokenizer = open_family(family)
        ids = tokenizer.encode("Hello world, a b")
        assert "".join(chunks_of(tokenizer, ids)) == "Hello world, a b"
        # What continues a prompt keeps the space between them.
        assert "".join(chunks_of(tokenizer, ids, after_text=True)) == " Hello world, a b"
    ids = ids_of(tokenizer, ["▁", "▁", "▁a"])
    assert chunks_of(tokenizer, ids) == ["", " ", " a", ""]


@pytest.mark.parametrize("family", ["t5", "albert", "bert", "words"])
def test_other_decoders_keep_the_space_after_a_text_too(open_family, family):
    tokenizer = open_family(family)
    first, second = tokenizer.encode("a a")[-1], tokenizer.encode("a")[-1]
    assert first == second
    assert chunks_of(tokenizer, [first, second]) == ["a", " a", ""]
    assert chunks_of(tokenizer, [first, second], after_text=True) == [" a", " a", ""]


def test_the_end_of_a_word_is_a_space_once_the_next_token_comes(open_family):
    tokenizer = open_family("openai-gpt")
    ids = ids_of(tokenizer, ["a", "a</w>", "a</w>"])
    assert chunks_of(tokenizer, ids) == ["a", "a", " a", ""]


@pytest.mark.parametrize("family", ["llama2", "gemma", "mistral-v3", "bert", "openai-gpt", "gpt2"])
def test_a_push_costs_the_same_after_a_long_text(open_family, family):
    tokenizer = open_family(family)
    ids = tokenizer.encode("a b, c! é한 ") * 40
    stream = tokenizer.stream()

    def seconds(rounds):
        started = time.perf_counter()
        for _ in range(rounds):
            for each in ids:
                stream.push(each)
        return (time.perf_counter() - started) / rounds

    early = min(seconds(2) for _ in range(5))
    seconds(100)
    late = min(seconds(2) for _ in range(5))
    # A stream that looks at all it has shown would take a hundred times as long.
    assert late < 10 * early


def template(*tokens):
    special = {token: {"id": token, "ids": [each], "tokens": [token]} for token, each in tokens}
    single = [{"SpecialToken": {"id": token, "type_id": 0}} for token, _ in tokens]
    single.insert(1, {"Sequence": {"id": "A", "type_id": 0}})
    return {"type": "TemplateProcessing", "single": single, "special_tokens": special}


BEGIN = ("<|im_start|>", 2)
END = ("<|endoftext|>", 1)


@pytest.mark.parametrize(
    "post_processor, begin, end",
    [
        (None, (), ()),
        (template(BEGIN), (2,), ()),
        (template(BEGIN, END), (2,), (1,)),
        ({"type": "RobertaProcessing", "cls": ["<s>", 2], "sep": ["</s>", 1]}, (2,), (1,)),
        ({"type": "BertProcessing", "cls": ["<s>", 2], "sep": ["</s>", 1]}, (2,), (1,)),
        (
            {
                "type": "Sequence",
                "processors": [{"type": "ByteLevel", "trim_offsets": False}, template(BEGIN)],
            },
            (2,),
            (),
        ),
    ],
)
def test_what_stands_around_a_text_is_known_and_added_on_demand(
    open_family, post_processor, begin, end
):
    tokenizer = open_family("llama3", post_processor=post_processor)
    assert (tokenizer.begin_ids, tokenizer.end_ids) == (begin, end)
    plain = tokenizer.encode("test")
    assert tokenizer.encode("test", framed=True) == [*begin, *plain, *end]


def test_the_begin_token_is_never_doubled(open_family):
    tokenizer = open_family("llama3", post_processor=template(BEGIN))
    plain = tokenizer.encode("test")
    text = "<|im_start|>test"
    # A template writes it into the text; a user only types its letters.
    assert tokenizer.encode(text, allow_special=True, framed=True) == [2, *plain]
    typed = tokenizer.encode(text, framed=True)
    assert typed.count(2) == 1
    assert tokenizer.decode(typed) == text


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    "family, front", [("llama2", "▁"), ("llama2-new", ""), ("mistral-v3", "▁"), ("gemma", "")]
)
def test_a_word_after_an_added_token_begins_as_the_family_begins_it(
    open_family, family, front, special
):
    tokens = [dict(added_token("<|user|>", 2000), special=special)]
    tokenizer = open_family(family, added_tokens=tokens)
    ids = tokenizer.encode("<|user|>zz", allow_special=True)
    assert ids[0] == 2000
    assert "".join(tokenizer.token(each) for each in ids[1:]) == front + "zz"
    # At the start of a text the newer form has the space too.
    first = "".join(tokenizer.token(each) for each in tokenizer.encode("zz"))
    assert first == ("" if family == "gemma" else "▁") + "zz"
