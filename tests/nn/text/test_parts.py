"""Every part of a tokenizer.json, alone, does what the same part of the reference does."""

import itertools
import json
import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from edgeformer.text.byte_letters import spelled
from edgeformer.text.cutting import BEHAVIORS
from edgeformer.text.decoders import read_decoder
from edgeformer.text.normalizers import read_normalizer
from edgeformer.text.pre_tokenizers import read_pre_tokenizer
from edgeformer.text.stream import end_of, push_through, start_stages
from tests.text import family_parts as families
from tests.text.family_parts import byte_level, metaspace, part, replace, split, then
from tests.text.family_parts import decoders as chain
from tests.text.hard_strings import HARD_STRINGS, random_strings
from tests.text.small import tokenizer_of

TEXTS = [*HARD_STRINGS, *random_strings(seed=11, count=300), "a--b-c-", "--", "aAbB\n", "ʼs'S"]


EMPTY = json.loads(Tokenizer(models.BPE()).to_str())


def reference(module, value):
    """The reference's part of this JSON."""
    return getattr(Tokenizer.from_str(json.dumps(dict(EMPTY, **{module: value}))), module)


SCHEMES = ("always", "first", "never")
PATTERNS = [
    *(r"\s", r"\s+", r"[a-z]", r"\d{2}", r"\p{L}+|\p{N}", r"x*", r"a?", r"(?=[A-Z])", r"\b", r"$"),
    *(r"^", r"^\s+", r"(?<=\s)\w+", r"(?<!\p{L})\p{L}{2}", r"(?>\p{L}+\d*)", r"\S+?", r".+"),
    *(r"[\p{L}&&[^\p{Han}]]+|\p{Han}+", r"[[:punct:]]+|[[:space:]]{2,}", r"\h+", r"(ab|a)+?"),
    *(r"\x{1F600}|\u0041|\x20", r"[\-a\]]+|[a-]", r"\p{^L}+", r"\P{Nd}{3}", r"\p{Sc}|\p{Zs}+"),
    *(r"(?i:'s|'ll|k|[a-f]+)", r"\p{N}{1,3}+", r"\p{L}++\p{M}*+'?+", r"[^(\s|[.,!?…。])]+", r"\w"),
    *(r"[\n\r]*\z", r"\A\s*", r"\D\W?", r"[\x00-\x1f\x{200b}]", r"\p{Hiragana}+|\p{Katakana}"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_cutting_equals_the_reference(pattern, behavior):
    for invert in (False, True):
        check_pre_tokenizer(split(pattern, behavior, invert), TEXTS[::3])


@pytest.mark.parametrize(
    "value",
    [
        *(split(text, "MergedWithNext", kind="String") for text in (" ", "'", "ab", "\n\n", "é")),
        *(part("Punctuation", behavior=behavior) for behavior in BEHAVIORS),
        *(part("Digits", individual_digits=flag) for flag in (False, True)),
        *(byte_level(*flags) for flags in itertools.product([False, True], repeat=2)),
        *(metaspace(*each) for each in itertools.product(SCHEMES, [False, True])),
        part("Metaspace", replacement="_", add_prefix_space=True),
        part("Metaspace", replacement="_", add_prefix_space=False, prepend_scheme="never"),
        *(part(name) for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")),
        part("CharDelimiterSplit", delimiter="-"),
        then(),
        then(byte_level(), byte_level(), split("Ġ", kind="String")),
        then(split(r"\d"), metaspace("always")),
        families.FALCON,
        families.DEEPSEEK_LLM,
    ],
    ids=str,
)
def test_pre_tokenizers_equal_the_reference(value):
    check_pre_tokenizer(value, TEXTS)


def check_pre_tokenizer(value, texts):
    ours, theirs = read_pre_tokenizer(value, "x"), reference("pre_tokenizer", value)
    for text in filter(None, texts):
        words = ours.words(text, True)
        words = [spelled(word) for word in words] if ours.spells else words
        assert words == [word for word, _ in theirs.pre_tokenize_str(text)], repr(text)


@pytest.mark.parametrize(
    "value",
    [
        *(part(name) for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")),
        part("Nmt"),
        *(
            part("Strip", strip_left=left, strip_right=right)
            for left, right in itertools.product([False, True], repeat=2)
        ),
        part("Prepend", prepend="▁"),
        part("ByteLevel"),
        *(replace(*each) for each in ((" ", "▁"), ("ab", ""), ("  ", " "), ("\n", "\n\n"))),
        *(replace(pattern, "<>", "Regex") for pattern in PATTERNS),
        *(
            dict(families.BERT, **dict(zip(("clean_text", "handle_chinese_chars"), flags)))
            for flags in itertools.product([False, True], repeat=2)
        ),
        *(
            dict(families.BERT, strip_accents=strip, lowercase=lower)
            for strip, lower in itertools.product([None, False, True], [False, True])
        ),
        families.ALBERT,
        families.CLIP_TEXT,
        families.OLD_LLAMA,
    ],
    ids=str,
)
def test_normalizers_equal_the_reference(value):
    ours, theirs = read_normalizer(value, "x"), reference("normalizer", value)
    for text in TEXTS:
        assert ours(text) == theirs.normalize_str(text), repr(text)


@pytest.mark.slow
def test_bert_treats_every_character_as_the_reference_does():
    text = "".join("a%sa\n" % chr(each) for each in range(0x110000) if not 0xD800 <= each < 0xE000)
    for lower in (False, True):
        value = dict(families.BERT, lowercase=lower)
        expected = reference("normalizer", value).normalize_str(text)
        assert read_normalizer(value, "x")(text) == expected


TOKENS = [
    *("▁", "▁a", "a▁b", " ", "a", "##a", "a##", "</w>", "a</w>", "</w>a", "", "n't", "'m", "."),
    *("<0x41>", "<0xE3>", "<0x81>", "<0x82>", "<0xZZ>", "do not", "Ġa", "é", "Ã©", "😀", "ĺ", " ,"),
]
STRIPS = [part("Strip", content=" ", start=1, stop=0), part("Strip", content="a", start=3, stop=0)]


@pytest.mark.parametrize(
    "value",
    [
        None,
        byte_level(),
        part("Fuse"),
        part("WordPiece", prefix="##", cleanup=True),
        part("WordPiece", prefix="##", cleanup=False),
        part("BPEDecoder", suffix="</w>"),
        *(metaspace(scheme) for scheme in SCHEMES),
        replace("a", "▁"),
        replace("[a▁]", "", "Regex"),
        part("Strip", content="☃", start=1, stop=0),
        chain(replace("▁", " "), part("Fuse"), STRIPS[0]),
        chain(part("Fuse"), STRIPS[1]),
        chain(part("Fuse"), replace("a", "bb"), STRIPS[0]),
        chain(byte_level(), STRIPS[1]),
        chain(metaspace("always"), part("WordPiece", prefix="##", cleanup=True)),
        families.SPM_DECODER,
    ],
    ids=str,
)
def test_decoders_equal_the_reference_however_tokens_come(value):
    ours = read_decoder(value, "x")
    theirs = None if value is None else reference("decoder", value)
    source = random.Random(12)
    for _ in range(3000):
        tokens = source.choices(TOKENS, k=source.randrange(1, 9))
        if not whole_characters(tokens):
            continue
        expected = " ".join(tokens) if theirs is None else theirs.decode(tokens)
        stages = start_stages(ours, False)
        assert "".join(push_through(stages, tokens)) + end_of(stages) == expected, tokens
        stages = start_stages(ours, False)
        chunks = [text for token in tokens for text in push_through(stages, [token])]
        assert "".join(chunks) + end_of(stages) == expected, tokens


def whole_characters(tokens):
    """Whether byte tokens in a row are UTF-8 or nothing of it is: else we mean to differ."""
    runs = itertools.groupby(tokens, lambda token: token.startswith("<0x") and "Z" not in token)
    for is_bytes, run in runs:
        raw = bytes(int(token[3:5], 16) for token in run) if is_bytes else b""
        text = raw.decode("utf-8", "replace")
        if "\ufffd" in text and set(text) != {"\ufffd"}:
            return False
    return True


FLAGS = list(itertools.product([False, True], repeat=4))
CONTENTS = ["<|a|>", "<|a", "a|>us", "  ", "😀", "l's", "us", "É", "e\u0301", "Ⅷ"]


@pytest.mark.parametrize("normalized, lstrip, rstrip, single_word", FLAGS)
@pytest.mark.parametrize(
    "normalizer",
    [
        None,
        normalizers.NFC(),
        normalizers.Lowercase(),
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    ],
    ids=str,
)
def test_added_tokens_equal_the_reference(
    normalizer, normalized, lstrip, rstrip, single_word, tmp_path
):
    theirs = Tokenizer(models.BPE({"<unk>": 0, "a": 1, "▁": 2}, [], unk_token="<unk>"))
    if normalizer is not None:
        theirs.normalizer = normalizer
    theirs.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    theirs.decoder = decoders.Fuse()
    flags = {"lstrip": lstrip, "rstrip": rstrip, "single_word": single_word}
    theirs.add_tokens([AddedToken(each, normalized=normalized, **flags) for each in CONTENTS])
    theirs.add_tokens([AddedToken(each, normalized=True) for each in ("x<", "ser")])
    theirs.add_special_tokens([AddedToken("<s>", **flags)])
    ours = tokenizer_of(json.loads(theirs.to_str()), tmp_path)
    pieces = [*CONTENTS, *("x<", "ser", "<s>", " ", "\n", "a", "_", "é", "\u200d", "²", "1", "▁")]
    source = random.Random(13)
    texts = ["".join(source.choices(pieces, k=source.randrange(10))) for _ in range(300)]
    for text, allow_special in itertools.product(texts, [False, True]):
        theirs.encode_special_tokens = not allow_special
        ids = ours.encode(text, allow_special=allow_special)
        assert ids == theirs.encode(text).ids, repr(text)
        for show in (False, True):
            assert ours.decode(ids, show) == theirs.decode(ids, skip_special_tokens=not show)


def test_a_special_token_that_is_found_in_normalized_text_is_hidden(tmp_path):
    # The reference shows it, because it looks for "</s>" among special tokens and has "▁</s>".
    theirs = Tokenizer(models.BPE({"<unk>": 0, "a": 1, "▁": 2}, [], unk_token="<unk>"))
    theirs.normalizer = normalizers.Prepend("▁")
    theirs.decoder = decoders.Fuse()
    theirs.add_special_tokens([AddedToken("</s>", normalized=True)])
    ours = tokenizer_of(json.loads(theirs.to_str()), tmp_path)
    ids = theirs.encode("</s>").ids
    assert ours.encode("</s>", allow_special=True) == ids == [3]
    assert theirs.decode(ids) == ours.decode(ids, show_special=True) == "▁</s>"
    assert ours.decode(ids) == ""


def test_stripping_the_end_of_each_token_equals_the_reference():
    value = part("Strip", content="a", start=1, stop=2)
    ours, theirs = read_decoder(value, "x"), reference("decoder", value)
    for token in ("abaa", "aabaaa", "b", "aab", "abba"):  # one that is all a makes it panic
        assert "".join(push_through(start_stages(ours, False), [token])) == theirs.decode([token])


def test_scores_are_read_as_the_reference_reads_them(tmp_path):
    source = random.Random(14)
    pieces = [["<unk>", 0.0], ["a", -3]]
    for power in range(-12, 12):
        pieces += [["a%d,%d" % (power, i), -source.random() * 10.0**power] for i in range(100)]
    text = json.dumps(dict(EMPTY, model={"type": "Unigram", "unk_id": 0, "vocab": pieces}))
    ours = tokenizer_of(json.loads(text), tmp_path)._model._scores
    theirs = [score for _, score in json.loads(Tokenizer.from_str(text).to_str())["model"]["vocab"]]
    assert theirs != [score for _, score in pieces]
    assert ours == theirs


def test_the_likeliest_pieces_are_those_of_the_reference(tmp_path):
    # Few letters, some of them only in longer pieces: what is unknown competes with what is not.
    source = random.Random(15)
    for _ in range(40):
        pieces = {"<unk>": 0.0}
        for _ in range(source.randrange(2, 14)):
            piece = "".join(source.choices("abcd", k=source.randrange(1, 5)))
            pieces[piece] = -source.choice([0.5, 1.0, 2.0, 20.0, 40.0])
        for byte_fallback in (False, True):
            model = {"type": "Unigram", "unk_id": 0, "vocab": list(map(list, pieces.items()))}
            text = json.dumps(dict(EMPTY, model=dict(model, byte_fallback=byte_fallback)))
            ours, theirs = tokenizer_of(json.loads(text), tmp_path), Tokenizer.from_str(text)
            for _ in range(40):
                each = "".join(source.choices("abcde", k=source.randrange(12)))
                assert ours.encode(each) == theirs.encode(each).ids, (pieces, each)
