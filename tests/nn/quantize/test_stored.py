"""What a GGUF stores in blocks of 8 or 4 bits is taken over number by number."""

import gguf
import pytest
import torch
import transformers

from edgeformer.nn.families.load import load_decoder, plan_decoder
from edgeformer.nn.quantize.stored import stored_blocks
from edgeformer.nn.sources import open_source
from tests.nn.sources.gguf_models import write_gguf

Q = gguf.GGMLQuantizationType


def config(**changes):
    values = {
        "vocab_size": 96,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
    }
    return values | changes


def random_model(config):
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config).float()


@pytest.mark.parametrize("kind", [Q.Q8_0, Q.Q4_0, Q.Q4_1], ids=lambda kind: kind.name)
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_blocks_are_the_dequantized_weights(family, kind, tmp_path):
    made = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[family]
    write_gguf(tmp_path / "m.gguf", random_model(made(**config())), kind)
    source = open_source(tmp_path / "m.gguf")
    plan, decoder = plan_decoder(source), load_decoder(source)
    found = stored_blocks(source, plan)
    weights = decoder.state_dict()
    matrices = {name for name, weight in weights.items() if weight.dim() == 2}
    assert set(found) == matrices
    for name, blocks in found.items():
        if kind == Q.Q4_1:
            assert torch.allclose(blocks.dense(), weights[name], rtol=0, atol=1e-6)
        else:
            assert torch.equal(blocks.dense(), weights[name]), name


def test_what_is_not_in_blocks_is_left_out(tmp_path):
    model = random_model(transformers.LlamaConfig(**config()))
    write_gguf(tmp_path / "m.gguf", model, Q.F16)
    source = open_source(tmp_path / "m.gguf")
    assert stored_blocks(source, plan_decoder(source)) == {}


def test_a_folder_of_safetensors_has_none(tmp_path):
    random_model(transformers.LlamaConfig(**config())).save_pretrained(tmp_path)
    source = open_source(tmp_path)
    assert stored_blocks(source, plan_decoder(source)) == {}
