"""What an export reads about text from checkpoints that have no tokenizer.json."""

import json
import shutil

import numpy as np
from safetensors.numpy import save_file

from edgeformer.export.identity import compare
from edgeformer.export.words import read_words
from edgeformer.nn.sources import open_source
from edgeformer.text.hf_file import read_hf_file
from tests.nn.text.test_sentencepiece import FOLDER


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
