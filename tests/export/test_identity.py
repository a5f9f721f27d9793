"""What a bundle says of its tokenizer: equal to the reference, or by which texts it differs."""

import json

import numpy as np
import pytest
import tokenizers
from safetensors.numpy import save_file

from edgeformer.export.identity import SHOWN, compare
from edgeformer.export.tokenizer import write_words
from edgeformer.export.words import Words, read_words
from edgeformer.nn.sources import open_source
from edgeformer.text import load_tokenizer
from tests.text.chat_id_cases import CASES, document_of, named_tokens, template_of

# One case of each kind of tokenizer.
KINDS = {
    "byte-bpe": "smollm2",
    "bpe": "prefixed-bpe",
    "spm-bpe": "llama2",
    "unigram": "unigram",
    "word-piece": "word-piece",
    "word-level": "words",
}


def size_of(document):
    return 1 + max(entry["id"] for entry in document["added_tokens"])


def loaded(folder, document):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(document))
    return load_tokenizer(str(path))


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_of_every_kind_is_identical_on_hundreds_of_texts(kind, tmp_path):
    document = document_of(KINDS[kind])
    found = write_words(tmp_path, Words(json.dumps(document)), size_of(document))
    identity = found.entry.identity
    assert identity.reference.startswith("tokenizers 0.")
    assert identity.texts >= 300
    assert identity.differences == ()
    assert found.notes == ()


@pytest.mark.parametrize("mine, theirs", [("smollm2", "qwen3"), ("tinyllama", "mistral")])
def test_another_tokenizer_is_told_by_the_texts_that_it_reads_otherwise(mine, theirs, tmp_path):
    ours, other = loaded(tmp_path, document_of(mine)), json.dumps(document_of(theirs))
    found = compare(ours, other)
    assert len(found.differences) == SHOWN + 1
    assert all(each.endswith("gives other ids or another text") for each in found.differences[:-1])
    assert found.differences[-1].startswith("and ")
    assert compare(ours, json.dumps(document_of(mine))).differences == ()


def test_lengths_that_training_left_in_the_file_are_no_difference(tmp_path):
    """transformers encodes a prompt without them."""
    document = document_of("smollm2")
    reference = tokenizers.Tokenizer.from_str(json.dumps(document))
    reference.enable_truncation(4)
    reference.enable_padding(length=10)
    assert compare(loaded(tmp_path, document), reference.to_str()).differences == ()


def test_one_other_id_is_found_and_so_is_one_other_way_to_write_a_token(tmp_path):
    """A swap of two ids that few texts have, and a decoder that keeps one more space."""
    document = document_of("tinyllama")
    ours = loaded(tmp_path, document)
    vocab = document["model"]["vocab"]
    vocab["<0x01>"], vocab["<0x02>"] = vocab["<0x02>"], vocab["<0x01>"]
    swapped = compare(ours, json.dumps(document)).differences
    assert 0 < len(swapped) < SHOWN
    document = document_of("tinyllama")
    document["decoder"]["decoders"].pop()
    assert len(compare(ours, json.dumps(document)).differences) == SHOWN + 1


def test_a_token_beyond_the_models_ids_is_left_out_and_named(tmp_path):
    document = document_of("smollm2")
    last = document["added_tokens"][-1]
    found = write_words(tmp_path, Words(json.dumps(document)), size_of(document) - 1)
    assert last["content"] not in found.tokenizer.special_tokens
    assert found.entry.identity.differences == (f"{last['content']} is no token here",)
    assert any("left out" in note for note in found.notes)
    assert any("differs from its reference" in note for note in found.notes)


def checkpoint(folder, case, config=None, generation=None, tokenizer=None):
    """The words of a folder with these end tokens, as an export writes them."""
    document = document_of(case)
    files = {
        "config.json": {"model_type": "llama", "vocab_size": size_of(document), **(config or {})},
        "generation_config.json": generation,
        "tokenizer_config.json": {**named_tokens(case), **(tokenizer or {})},
        "tokenizer.json": document,
    }
    for name, values in files.items():
        if values is not None:
            (folder / name).write_text(json.dumps(values))
    save_file({"x": np.zeros(1, np.float32)}, folder / "model.safetensors")
    (folder / "bundle").mkdir()
    source = open_source(folder)
    return write_words(folder / "bundle", read_words(source), size_of(document))


def test_end_tokens_are_those_of_every_file_and_of_the_template(tmp_path):
    document = document_of("llama3")
    ids = {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    found = checkpoint(
        tmp_path,
        "llama3",
        config={"eos_token_id": 3},
        generation={"eos_token_id": [3, 4, size_of(document), -1, True, None]},
        tokenizer={"eos_token": "<|endoftext|>", "chat_template": template_of("llama3")},
    )
    assert found.eos_token_ids == (3, 4, ids["<|endoftext|>"], ids["<|eot_id|>"])


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1] == "chatml"])
def test_the_end_of_a_turn_ends_an_answer_though_no_file_says_so(case, tmp_path):
    found = checkpoint(
        tmp_path,
        case,
        config={"eos_token_id": 1},
        tokenizer={"eos_token": None, "chat_template": template_of(case)},
    )
    assert found.eos_token_ids == (1, found.tokenizer.special_tokens["<|im_end|>"])
    assert sorted(found.chat_templates) == ["default"]


def test_an_end_token_that_only_special_tokens_map_names_is_one(tmp_path):
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": {"content": "<|eot_id|>"}}')
    found = checkpoint(
        tmp_path, "llama3", config={"eos_token_id": 3}, tokenizer={"eos_token": None}
    )
    assert found.eos_token_ids == (3,)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "again").mkdir()
    document = document_of("llama3")
    words = read_words(open_source(tmp_path))
    found = write_words(tmp_path / "again", words, size_of(document))
    assert found.eos_token_ids == (3, found.tokenizer.special_tokens["<|eot_id|>"])


def test_without_a_chat_the_files_alone_say_what_ends_a_text(tmp_path):
    found = checkpoint(tmp_path, "llama3", generation={"eos_token_id": 7})
    assert found.eos_token_ids == (7, found.tokenizer.special_tokens["<|eot_id|>"])
    assert found.entry.bos_token_id == found.tokenizer.special_tokens["<s>"]
