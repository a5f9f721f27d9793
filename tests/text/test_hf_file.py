"""A tokenizer.json is understood as a whole, or refused with the part named."""

import pytest

from edgeformer.errors import EdgeformerError
from edgeformer.text import load_tokenizer
from tests.text.small import added_token, small_document, tokenizer_of

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
DIGITS = {"type": "Digits", "individual_digits": True}
TEMPLATE = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}


@pytest.mark.parametrize(
    "part, value, named",
    [
        ("normalizer", {"type": "NFC"}, "normalizer is NFC"),
        (
            "normalizer",
            {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]},
            "normalizer is Sequence .*NFD.*Lowercase",
        ),
        ("pre_tokenizer", None, "pre_tokenizer is missing"),
        ("pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer is Metaspace"),
        (
            "pre_tokenizer",
            {"type": "Sequence", "pretokenizers": [DIGITS, BYTE_LEVEL]},
            "pre_tokenizer is Sequence .*Digits",
        ),
        ("pre_tokenizer", dict(BYTE_LEVEL, later=1), "pre_tokenizer has later = 1"),
        ("pre_tokenizer", dict(BYTE_LEVEL, use_regex="no"), "pre_tokenizer has use_regex = 'no'"),
        ("decoder", None, "decoder is missing"),
        ("decoder", {"type": "BPEDecoder", "suffix": "</w>"}, "decoder is BPEDecoder"),
        ("post_processor", TEMPLATE, "post_processor is TemplateProcessing"),
        ("truncation", {"max_length": 8}, "truncation is set"),
        ("padding", {"strategy": "BatchLongest"}, "padding is set"),
        ("later_part", None, "unknown part 'later_part'"),
        ("model", {"type": "WordPiece", "vocab": {}}, "model is WordPiece"),
        ("model", [], r"model is \[\]"),
    ],
)
def test_a_part_that_would_change_ids_is_refused_by_name(tmp_path, part, value, named):
    document = dict(small_document(), **{part: value})
    with pytest.raises(EdgeformerError, match=named + ".*byte-level BPE"):
        tokenizer_of(document, tmp_path)


@pytest.mark.parametrize(
    "setting, value",
    [
        ("dropout", 0.1),
        ("continuing_subword_prefix", "##"),
        ("end_of_word_suffix", "</w>"),
        ("ignore_merges", "yes"),
        ("later_setting", None),
    ],
)
def test_a_model_setting_that_would_change_ids_is_refused_by_name(tmp_path, setting, value):
    document = small_document()
    document["model"][setting] = value
    with pytest.raises(EdgeformerError, match="model." + setting):
        tokenizer_of(document, tmp_path)


def test_parts_and_settings_that_change_no_ids_are_passed_over(tmp_path):
    text = "It's 12  o'clock 😀\n"
    expected = tokenizer_of(small_document(), tmp_path).encode(text)
    document = small_document()
    document["post_processor"] = None
    document["pre_tokenizer"]["trim_offsets"] = False
    document["model"].update(unk_token="<|endoftext|>", fuse_unk=True, byte_fallback=True)
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
    yield change(lambda d, m: m["merges"].append(["zzzz", "q"])), "merge 643 needs 'zzzz'"
    for token, reason in [
        ("<|x|>", "not understood"),
        (added_token("<|x|>", "900"), "'900'"),
        (added_token(5, 900), "content"),
        (added_token("", 900), "empty"),
        (added_token("<|x|>", 900, lstrip=1), "neither true nor false"),
        (added_token("<|x|>", 900, single_word=True), "single_word"),
        (added_token("<|x|>", 900, later=True), "not understood"),
        (added_token("<|x|>", 5), "has the id 5 of"),
        (added_token("the", 900), "'the' has two ids"),
        (added_token("é", small_document()["model"]["vocab"]["é"]), "byte's letter"),
        (added_token("<|endoftext|>", 0), "stands twice"),
    ]:
        yield change(lambda d, m, token=token: d["added_tokens"].append(token)), reason


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
        (b"{}", "pre_tokenizer is missing"),
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
