"""A tokenizer.json is understood as a whole, or refused with the part named."""

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text import load_tokenizer
from tests.text.small import added_token, small_document, tokenizer_of

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
FIRST = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}
SPACES = {"type": "WhitespaceSplit"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


def split(pattern, behavior="Isolated", **more):
    return dict({"type": "Split", "pattern": pattern, "behavior": behavior}, **more)


def sequence(name, *parts):
    return {"type": "Sequence", name: list(parts)}


def template(*single):
    special = {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}
    return {"type": "TemplateProcessing", "single": list(single), "special_tokens": special}


TEXT, BEGIN = {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}


@pytest.mark.parametrize(
    "part, value, named",
    [
        ("normalizer", {"type": "Later"}, "normalizer is Later"),
        ("normalizer", ["NFC"], r"normalizer is \['NFC'\]"),
        ("normalizer", {"type": "NFC", "x": 1}, "normalizer is NFC with x = 1"),
        ("normalizer", {"type": "Lowercase", "type2": 1}, "normalizer is Lowercase with type2"),
        ("normalizer", {"type": "Strip", "strip_left": 1}, "Strip with strip_left = 1"),
        ("normalizer", {"type": "Prepend"}, "prepend of normalizer is not a string"),
        ("normalizer", {"type": "Replace", "content": ""}, "Replace with pattern = None"),
        (
            "normalizer",
            {"type": "Replace", "content": "", "pattern": {"Regex": "a(?R)"}},
            r"Replace with the pattern 'a\(\?R\)', of which .* know the group '\(\?R\)'",
        ),
        ("normalizer", sequence("normalizers", {"type": "NFC"}, {"type": "X"}), "is X"),
        ("normalizer", {"type": "Sequence", "normalizers": {}}, "Sequence with normalizers = {}"),
        ("pre_tokenizer", {"type": "UnicodeScripts"}, "pre_tokenizer is UnicodeScripts"),
        ("pre_tokenizer", {"type": "FixedLength", "length": 2}, "pre_tokenizer is FixedLength"),
        ("pre_tokenizer", dict(BYTE_LEVEL, later=1), "ByteLevel with later = 1"),
        ("pre_tokenizer", dict(BYTE_LEVEL, use_regex="no"), "ByteLevel with use_regex = 'no'"),
        ("pre_tokenizer", split({"String": " "}, "Later"), "Split with behavior = 'Later'"),
        ("pre_tokenizer", split({"String": ""}), "an empty pattern"),
        ("pre_tokenizer", split({"Later": "x"}), "Split with pattern = {'Later': 'x'}"),
        ("pre_tokenizer", split({"Regex": r"\p{Klingon}"}), r"know the property .*Klingon"),
        ("pre_tokenizer", {"type": "Metaspace", "replacement": "__"}, "replacement = '__'"),
        ("pre_tokenizer", dict(FIRST, add_prefix_space=False), "add_prefix_space = False and"),
        ("pre_tokenizer", dict(FIRST, prepend_scheme="last"), "prepend_scheme = 'last'"),
        ("pre_tokenizer", sequence("pretokenizers", SPACES, FIRST), "'first' after another step"),
        ("post_processor", {"type": "Later"}, "post_processor is Later"),
        ("post_processor", template(BEGIN, "x", TEXT), "TemplateProcessing with 'x' in single"),
        ("post_processor", template(BEGIN), "a text that stands 0 times"),
        ("post_processor", template(TEXT, TEXT), "a text that stands 2 times"),
        ("post_processor", template({"SpecialToken": {"id": "</s>"}}, TEXT), "names no ids"),
        ("post_processor", {"type": "BertProcessing", "sep": ["x", 1]}, "with cls = None"),
        ("decoder", {"type": "CTC"}, "decoder is CTC"),
        ("decoder", sequence("decoders", {"type": "Fuse"}, dict(STRIP, stop=1)), "with stop"),
        ("decoder", sequence("decoders", {"type": "Fuse"}, {"type": "WordPiece"}), "is WordPiece"),
        (
            "decoder",
            sequence("decoders", {"type": "ByteFallback"}, STRIP),
            "decoder is Strip with what comes before",
        ),
        ("decoder", dict(STRIP, content="  "), "Strip with content = '  '"),
        ("decoder", dict(STRIP, start=-1), "Strip with start = -1"),
        ("later_part", None, "unknown part 'later_part'"),
        ("model", {"type": "Later", "vocab": {}}, "model is 'Later'"),
        ("model", [], r"model is \[\]"),
        ("model", None, "model is None"),
    ],
)
def test_a_part_that_would_change_ids_is_refused_by_name(tmp_path, part, value, named):
    document = dict(small_document(), **{part: value})
    with pytest.raises(EdgeformerError, match=named):
        tokenizer_of(document, tmp_path)


def test_a_normalizer_that_takes_the_start_away_hides_where_a_text_begins(tmp_path):
    # The reference looks whether the first character left was the first one of the text.
    document = dict(small_document(), pre_tokenizer=FIRST)
    for harmless in (None, {"type": "NFC"}, {"type": "Prepend", "prepend": "_"}):
        tokenizer_of(dict(document, normalizer=harmless), tmp_path)
    for taking in ({"type": "Strip"}, {"type": "StripAccents"}, {"type": "BertNormalizer"}):
        with pytest.raises(EdgeformerError, match="'first', and its normalizer may take away"):
            tokenizer_of(dict(document, normalizer=sequence("normalizers", taking)), tmp_path)


@pytest.mark.parametrize(
    "setting, value, named",
    [
        ("dropout", 0.1, "dropout"),
        ("ignore_merges", "yes", "ignore_merges = 'yes'"),
        ("continuing_subword_prefix", 5, "continuing_subword_prefix of model is not a string"),
        ("later_setting", None, "later_setting = None"),
    ],
)
def test_a_model_setting_that_would_change_ids_is_refused_by_name(tmp_path, setting, value, named):
    document = small_document()
    document["model"][setting] = value
    with pytest.raises(EdgeformerError, match=named):
        tokenizer_of(document, tmp_path)


def test_parts_and_settings_that_change_no_ids_are_passed_over(tmp_path):
    text = "It's 12  o'clock 😀\n"
    expected = tokenizer_of(small_document(), tmp_path).encode(text)
    document = small_document()
    document["post_processor"] = None
    document["truncation"] = {"max_length": 3}
    document["padding"] = {"strategy": {"Fixed": 100}}
    document["pre_tokenizer"]["trim_offsets"] = False
    document["model"].update(unk_token="<|unknown|>", fuse_unk=True, byte_fallback=True)
    document["model"].update(continuing_subword_prefix="", end_of_word_suffix="", dropout=0.0)
    # As the oldest files are: no type, no ignore_merges.
    del document["model"]["type"]
    document["model"].pop("ignore_merges", None)
    assert tokenizer_of(document, tmp_path).encode(text) == expected


def wrong_vocabularies():
    def change(edit):
        document = small_document()
        edit(document, document["model"])
        return document

    def lose_a_byte(document, model):
        del model["vocab"]["ÿ"], model["vocab"]["Ã"]  # 0xFF is in no UTF-8, 0xC3 is
        model["merges"] = []

    yield change(lambda d, m: m.update(vocab=[])), "model.vocab is not an object"
    yield change(lambda d, m: m["vocab"].update(the=5)), "same id"
    yield change(lambda d, m: m["vocab"].update(q="5")), "the id of 'q' is '5'"
    yield change(lambda d, m: m["vocab"].update(q=-5)), "the id of 'q' is -5"
    yield change(lambda d, m: m["vocab"].update(q=True)), "the id of 'q' is True"
    yield change(lambda d, m: m["vocab"].update(q=1 << 40)), "the id of 'q' is 1099511627776"
    yield change(lambda d, m: m["vocab"].update({"\ud800": 900})), "surrogate"
    yield change(lose_a_byte), "lacks byte 0xC3"
    yield change(lambda d, m: m.update(merges=None)), "model.merges is not a list"
    yield change(lambda d, m: m["merges"].append("a")), "merge 643 is"
    yield change(lambda d, m: m["merges"].append("a b c")), "merge 643 is"
    yield change(lambda d, m: m["merges"].append(["a", 5])), "merge 643 is"
    yield change(lambda d, m: m["merges"].append(["z", "q"])), "merge 643 needs 'zq'"
    yield change(lambda d, m: m["merges"].append(["zzzz", "q"])), "merge 643 needs 'zzzzq'"
    for token, reason in [
        ("<|x|>", "not understood"),
        (added_token("<|x|>", "900"), "'900'"),
        (added_token(5, 900), "content"),
        (added_token("", 900), "empty"),
        (added_token("<|x|>", 900, lstrip=1), "neither true nor false"),
        (added_token("<|x|>", 900, later=True), "not understood"),
        (added_token("<|x|>", 5), "has the id 5 of"),
        (added_token("the", 900), "'the' has two ids"),
        (added_token("<|endoftext|>", 0), "stands twice"),
    ]:
        yield change(lambda d, m, token=token: d["added_tokens"].append(token)), reason


def without_byte(letter):
    document = small_document()
    vocab = document["model"]["vocab"]
    document["model"]["merges"] = []
    document["model"]["vocab"] = {token: vocab[token] for token in vocab if letter not in token}
    return document


@pytest.mark.parametrize("letter", ["Ċ", "ĉ", "č", "Ġ", "a", "ã", "ð"])
def test_a_vocabulary_that_would_lose_text_is_refused(tmp_path, letter):
    with pytest.raises(EdgeformerError, match=r"lacks byte 0x.*: text would be lost"):
        tokenizer_of(without_byte(letter), tmp_path)


@pytest.mark.parametrize("letter", ["Ā", "ġ", "À", "Á", "õ", "ÿ"])
def test_a_vocabulary_may_lack_bytes_that_hardly_any_text_has(tmp_path, letter):
    tokenizer = tokenizer_of(without_byte(letter), tmp_path)
    assert tokenizer.decode(tokenizer.encode("It's 日本 😀\n")) == "It's 日本 😀\n"


@pytest.mark.parametrize("document, reason", list(wrong_vocabularies()))
def test_a_wrong_vocabulary_is_refused_with_the_reason(tmp_path, document, reason):
    with pytest.raises(EdgeformerError, match=reason):
        tokenizer_of(document, tmp_path)


@pytest.mark.parametrize(
    "raw, reason",
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[]", "a list"),
        (b"{}", "model is None"),
        (b"[" * 100000, "nested too deeply"),
        (b'{"a":' * 100000, "nested too deeply"),
        (b'{"model": 1, "model": 2}', "twice"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, raw, reason):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(raw)
    with pytest.raises(EdgeformerError, match="tokenizer.json.*" + reason):
        load_tokenizer(str(path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(EdgeformerError, match=r"absent\.json cannot be read: No such file"):
        load_tokenizer(str(tmp_path / "absent.json"))
