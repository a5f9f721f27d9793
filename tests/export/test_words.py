"""What an export reads about text from checkpoints that have no tokenizer.json."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from transformers import LlamaConfig, LlamaForCausalLM

import edgeformer
from edgeformer.export.__main__ import main
from edgeformer.export.identity import compare
from edgeformer.export.source import DEFAULT_PROMPT
from edgeformer.export.words import read_words
from edgeformer.nn.sources import open_source
from edgeformer.text.hf_file import read_hf_file
from tests.nn.families.models import reference
from tests.nn.sources.gguf_models import write_gguf
from tests.nn.text.test_gguf_vocabulary import pieces_metadata
from tests.nn.text.test_sentencepiece import FOLDER, expected
from tests.text.hard_strings import HARD_STRINGS
from tests.text.make_family_golden import checksum


def test_a_folder_with_only_a_sentencepiece_model_has_its_words(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "eos_token_id": 2}))
    save_file({"x": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    shutil.copy(FOLDER + "/bpe.model", tmp_path / "tokenizer.model")
    config = {
        "bos_token": {"content": "<s>"},
        "add_bos_token": True,
        "added_tokens_decoder": {"1200": {"content": "<|im_end|>", "special": True}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    words = read_words(open_source(tmp_path))
    assert words.named_tokens == {"bos_token": "<s>"}
    assert words.add_bos is True
    tokenizer = read_hf_file(json.loads(words.tokenizer_json), "x")
    assert tokenizer.encode("a<|im_end|>", allow_special=True)[-1] == 1200
    assert tokenizer.begin_ids == (1,)
    assert compare(tokenizer, words.tokenizer_json).differences == ()


def tiny_gguf(path, **changes):
    """A random Llama with the vocabulary of a SentencePiece model; what its metadata says of it."""
    metadata = pieces_metadata("bpe")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(metadata["tokenizer.ggml.tokens"]),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=128,
        initializer_range=0.5,
    )
    write_gguf(path, LlamaForCausalLM(config), **(metadata | changes))


def test_a_gguf_with_sentencepieces_exports_and_reads_text_as_they_do(tmp_path):
    tiny_gguf(tmp_path / "tiny.gguf")
    assert main(["--model", str(tmp_path / "tiny.gguf"), "-o", str(tmp_path / "bundle")]) == 0
    with edgeformer.load(str(tmp_path / "bundle")) as model:
        for text, ids in zip(HARD_STRINGS, expected("bpe")["ids"]):
            assert checksum(model.tokenizer.encode(text), "") == ids, repr(text)
        assert model.generate("It is", max_new_tokens=3).tokens


@pytest.mark.parametrize("capacity", ["2", "12"])
def test_a_cache_smaller_than_the_default_golden_prompt_takes_its_beginning(capacity, tmp_path):
    tiny_gguf(tmp_path / "tiny.gguf")
    export = ["--model", str(tmp_path / "tiny.gguf"), "-o", str(tmp_path / "bundle")]
    assert main([*export, "--capacity", capacity]) == 0
    with edgeformer.load(str(tmp_path / "bundle")) as model:
        golden = model.bundle.manifest.golden
        asked = [1, *model.tokenizer.encode(DEFAULT_PROMPT)]
    assert list(golden.prompt_ids) == asked[: int(capacity) // 2]
    assert len(golden.greedy_ids) == int(capacity) - int(capacity) // 2


def test_an_export_says_that_the_checkpoint_has_no_tokenizer(tmp_path, capsys):
    reference("gpt2").save_pretrained(tmp_path / "model")
    export = ["--model", str(tmp_path / "model"), "-o", str(tmp_path / "bundle"), "--force"]
    assert main(export) == 0
    assert "has no tokenizer" in capsys.readouterr().err
    assert main([*export, "--no-tokenizer"]) == 0
    assert "has no tokenizer" not in capsys.readouterr().err


def test_without_its_tokenizer_a_checkpoint_still_ends_where_it_ends(tmp_path, capsys):
    """Also the way out for a vocabulary that is not understood, as the error says."""
    tiny_gguf(tmp_path / "tiny.gguf", **{"tokenizer.ggml.model": "rwkv"})
    export = ["--model", str(tmp_path / "tiny.gguf"), "-o", str(tmp_path / "bundle")]
    assert main(export) == 2
    assert "--no-tokenizer" in capsys.readouterr().err
    assert main([*export, "--no-tokenizer"]) == 0
    with edgeformer.load(str(tmp_path / "bundle")) as model:
        manifest = model.bundle.manifest
        assert (manifest.tokenizer, manifest.eos_token_ids) == (None, (2,))
        assert len(model.generate([1, 2, 3], max_new_tokens=3).tokens) == 3
