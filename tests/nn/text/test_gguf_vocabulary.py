"""The vocabulary in a GGUF's metadata becomes the tokenizer.json of the model it was made from."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from edgeformer.errors import EdgeformerError
from edgeformer.nn.tokenizer_convert import gguf_tokenizer_json, sentencepiece_tokenizer_json
from edgeformer.nn.tokenizer_convert.pre_names import CUTS, OF_ARCHITECTURE
from edgeformer.nn.tokenizer_convert.sentencepiece import _read
from tests.nn.text.families import document_of
from tests.nn.text.test_sentencepiece import raw_model
from tests.text.family_parts import FAMILIES
from tests.text.hard_strings import HARD_STRINGS, random_strings
from tests.text.make_family_golden import golden
from tests.text.small import tokenizer_of

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
TEXTS = [
    *HARD_STRINGS[::2],
    *random_strings(seed=5, count=60),
    "<|im_start|>a<tool> b<|endoftext|>",
]


def byte_level_metadata(model, **others):
    """As llama.cpp's converter writes it: control tokens in place, padded at the end."""
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    kinds = [CONTROL if token in ("<|endoftext|>", "<|im_start|>") else NORMAL for token in tokens]
    tokens += ["<tool>", "[PAD501]", "[PAD502]"]
    kinds += [USER_DEFINED, UNUSED, UNUSED]
    return metadata(
        model="gpt2",
        tokens=tokens,
        token_type=np.array(kinds, np.int32),
        merges=[" ".join(pair) for pair in model["merges"]],
        **others,
    )


def metadata(**fields):
    return {"tokenizer.ggml." + name: value for name, value in fields.items()}


@pytest.fixture(scope="module")
def model():
    return golden()["models"]["byte-bpe"]


@pytest.mark.parametrize("name", sorted(CUTS))
def test_every_known_way_to_cut_gives_the_ids_of_the_reference(name, model, tmp_path):
    text = gguf_tokenizer_json(byte_level_metadata(model, pre=name), "x")
    ours, theirs = tokenizer_of(json.loads(text), tmp_path), Tokenizer.from_str(text)
    for allow_special in (False, True):
        theirs.encode_special_tokens = not allow_special
        for each in TEXTS:
            ids = ours.encode(each, allow_special=allow_special)
            assert ids == theirs.encode(each, add_special_tokens=False).ids, repr(each)
            assert ours.decode(ids) == theirs.decode(ids)


@pytest.mark.parametrize(
    "name, family",
    [
        ("gpt-2", "gpt2"),
        ("olmo", "gpt-neox"),
        ("smollm", "smollm2"),
        ("starcoder", "smollm2"),
        ("falcon", "falcon"),
        ("bloom", "bloom"),
        ("llama-bpe", "llama3"),
        ("qwen2", "qwen2"),
        ("gpt-4o", "gpt4o"),
        ("tekken", "mistral-nemo"),
        ("deepseek-v3", "deepseek-v3"),
    ],
)
def test_the_ids_are_those_of_the_family(name, family, tmp_path):
    document = document_of(family)
    text = gguf_tokenizer_json(byte_level_metadata(document["model"], pre=name), "x")
    ours = tokenizer_of(json.loads(text), tmp_path)
    theirs = Tokenizer.from_str(json.dumps(document))
    for each in TEXTS:
        ids = theirs.encode(each, add_special_tokens=False).ids
        assert ours.encode(each, allow_special=True) == ids, repr(each)


def test_an_old_file_is_cut_as_its_architecture_says(model):
    for architecture, name in OF_ARCHITECTURE.items():
        for pre in ({}, {"pre": "default"}):
            data = dict(byte_level_metadata(model, **pre), **{"general.architecture": architecture})
            found = json.loads(gguf_tokenizer_json(data, "x"))
            assert found["pre_tokenizer"] == CUTS[name].pre_tokenizer
    unnamed = json.loads(gguf_tokenizer_json(byte_level_metadata(model), "x"))
    assert unnamed["pre_tokenizer"] == CUTS["default"].pre_tokenizer


def test_padding_is_no_token_and_control_tokens_are_special(model, tmp_path):
    ids = {"bos_token_id": 1, "eos_token_id": 2}
    data = byte_level_metadata(model, pre="llama-bpe", **ids)
    tokenizer = tokenizer_of(json.loads(gguf_tokenizer_json(data, "x")), tmp_path)
    assert tokenizer.special_tokens == {"<|endoftext|>": 1, "<|im_start|>": 2}
    assert tokenizer.vocab_size == 501
    assert "[PAD501]" not in [tokenizer.token(each) for each in range(510)]
    # Llama 3's files do not say that a text begins with the begin token.
    assert (tokenizer.begin_ids, tokenizer.end_ids) == ((1,), ())
    data.update(metadata(add_bos_token=False, add_eos_token=True))
    tokenizer = tokenizer_of(json.loads(gguf_tokenizer_json(data, "x")), tmp_path)
    assert (tokenizer.begin_ids, tokenizer.end_ids) == ((), (2,))


def pieces_metadata(name, model="llama", **others):
    """A SentencePiece vocabulary as llama.cpp's converter writes it."""
    read = _read(raw_model(name), "x")
    user = [kind == USER_DEFINED for kind in read.kinds]
    return metadata(
        model=model,
        tokens=[t.replace("▁", " ") if u else t for t, u in zip(read.texts, user)],
        scores=np.array([-1000.0 if u else s for s, u in zip(read.scores, user)], np.float32),
        token_type=np.array(read.kinds, np.int32),
        bos_token_id=1,
        eos_token_id=2,
        unknown_token_id=0,
        add_space_prefix=read.prefix,
        remove_extra_whitespaces=read.squeeze,
        **others,
    )


@pytest.mark.parametrize("name", ["bpe", "bpe-no-prefix", "bpe-squeeze"])
def test_pieces_give_what_their_sentencepiece_model_gives(name):
    expected = json.loads(sentencepiece_tokenizer_json(raw_model(name), "x"))
    assert json.loads(gguf_tokenizer_json(pieces_metadata(name), "x")) == expected


def test_likely_pieces_give_what_their_sentencepiece_model_gives(tmp_path):
    found = json.loads(gguf_tokenizer_json(pieces_metadata("unigram", model="t5"), "x"))
    expected = json.loads(sentencepiece_tokenizer_json(raw_model("unigram"), "x"))
    ours, theirs = tokenizer_of(found, tmp_path), tokenizer_of(expected, tmp_path)
    for text in TEXTS:
        assert ours.encode(text) == theirs.encode(text)
    assert (ours.begin_ids, ours.end_ids) == ((), (2,))


def test_merges_of_the_file_come_before_those_of_the_scores():
    data = pieces_metadata("bpe", merges=["t h", "▁ a"])
    found = json.loads(gguf_tokenizer_json(data, "x"))
    assert found["model"]["merges"] == [["t", "h"], ["▁", "a"]]


def test_a_bert_vocabulary_gets_its_own_marks_back(tmp_path):
    document = document_of("bert")
    vocab = document["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    special = ["[UNK]", "[CLS]", "[SEP]"]
    plain = [token for token in tokens if token not in ("<unk>", "<|endoftext|>", "<|im_start|>")]
    plain = [token for token in plain if token != "<tool>"]
    marked = [token[2:] if token.startswith("##") else "▁" + token for token in plain]
    data = metadata(
        model="bert",
        tokens=special + marked,
        token_type=np.array([3] * 3 + [1] * len(marked), np.int32),
        unknown_token_id=0,
        bos_token_id=1,
        seperator_token_id=2,
    )
    text = gguf_tokenizer_json(data, "x")
    found = json.loads(text)
    assert sorted(found["model"]["vocab"]) == sorted(special + plain)
    assert found["normalizer"] == document["normalizer"]
    ours, theirs = tokenizer_of(found, tmp_path), Tokenizer.from_str(text)
    for each in TEXTS:
        assert ours.encode(each, framed=True) == theirs.encode(each).ids
    assert (ours.begin_ids, ours.end_ids) == ((1,), (2,))


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"model": "rwkv"}, "model 'rwkv'; gpt2, llama"),
        ({"model": 5}, "tokenizer.ggml.model is 5"),
        ({"pre": "superbpe"}, "in a way called 'superbpe'"),
        ({"tokens": None}, "no list of tokens"),
        ({"tokens": []}, "no list of tokens"),
        ({"tokens": ["a", 5]}, "not every token is text"),
        ({"tokens": ["a", "a"], "token_type": np.array([1, 1])}, "'a' stands twice, as 0 and 1"),
        ({"token_type": np.array([1])}, "503 tokens and 1 of token_type"),
        ({"token_type": 3}, "token_type is 3"),
        ({"merges": None}, "no list of merges"),
        ({"merges": ["a"]}, "merge 0 is 'a'"),
        ({"merges": ["a "]}, "merge 0 is 'a '"),
        ({"merges": [["a", "b"]]}, r"merge 0 is \['a', 'b'\]"),
        ({"add_bos_token": 1}, "add_bos_token is 1"),
        ({"add_bos_token": True, "bos_token_id": 504}, "bos token is 504; it has 503"),
        ({"model": "llama"}, "tokens without scores"),
        ({"model": "llama", "scores": np.zeros(3)}, "503 tokens and 3 of scores"),
    ],
)
def test_wrong_metadata_is_refused_with_the_reason(change, reason, model):
    data = byte_level_metadata(model, pre="gpt-2")
    data.update(metadata(**change))
    with pytest.raises(EdgeformerError, match="`x`.*" + reason):
        gguf_tokenizer_json(data, "x")


def test_every_family_here_is_known():
    assert set(FAMILIES) >= {"llama3", "qwen2", "smollm2"}
