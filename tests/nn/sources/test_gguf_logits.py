"""A GGUF of each architecture computes what the `transformers` model it was made of computes."""

import pytest

from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.gguf_archs import ARCHS as OURS
from tests.nn.families.models import logit_error, reference
from tests.nn.families.shapes import SHAPES
from tests.nn.sources.gguf_models import ARCHS, write_gguf

TOLERANCE = 1e-4
# What llama.cpp's format cannot say, or what its converter fixes to one value.
NOT_IN_GGUF = {
    "llama-dynamic": "kind of RoPE",
    "qwen2-windows-tied": "windows",
    "qwen3-biases-window-tied": "windows",
    "smollm3-windows-untied": "windows, which layers turn",
    "gemma2-window": "query_pre_attn_scalar",
    "gemma2-no-caps": "query_pre_attn_scalar, no caps",
    "gemma3-two-thetas": "query_pre_attn_scalar, which layers have a window",
    "gpt2-inverse-untied": "activation, scaled scores",
    "gpt2-unscaled": "scaled scores",
    "phi-gqa-norms-tied": "activation, query norms",
    "gpt_neox-serial-no-bias-tied": "activation",
    "mpt-six-heads": "softmax_scale",
    "falcon-rw-style": "ALiBi",
    "falcon-rw-parallel-untied": "ALiBi",
    "llama-gqa-yarn-gelu": "activation",
    "starcoder2-window": "windows, in llama.cpp",
}


def shapes():
    in_gguf = [name for name in SHAPES if SHAPES[name]().model_type in ARCHS]
    return [name for name in in_gguf if name not in NOT_IN_GGUF]


@pytest.mark.parametrize("name", shapes())
def test_logits_of_a_gguf_equal_those_of_transformers(name, tmp_path):
    model = reference(name)
    write_gguf(tmp_path / "model.gguf", model)
    assert logit_error(model, load_decoder(open_source(tmp_path / "model.gguf"))) <= TOLERANCE


def test_every_architecture_is_tested():
    tested = {ARCHS[SHAPES[name]().model_type][0] for name in shapes()}
    assert set(OURS) == tested
