"""Configs: published ones are understood, and what changes the mathematics is refused by name."""

import json
from pathlib import Path

import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families import FAMILIES, UnsupportedModel, config_of, find_family, ours
from edgeformer.nn.rope import rope_frequencies
from tests.nn.families.shapes import SHAPES

# Configs as their authors published them, without most of the keys that every config has, and how
# many parameters each model is known to have.
_FILE = Path(__file__).with_name("published.json")
PUBLISHED = {
    name: (entry["parameters"], entry["config"])
    for name, entry in json.loads(_FILE.read_text("utf-8")).items()
}
FIRST = {}
for _name in SHAPES:
    FIRST.setdefault(SHAPES[_name]().model_type, _name)


def saved(family):
    """The config.json of the family's first shape."""
    return json.loads(SHAPES[FIRST[family]]().to_json_string(use_diff=False))


def read(values):
    return config_of(find_family(values["model_type"]), values)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_gives_the_known_number_of_parameters(name):
    known, values = PUBLISHED[name]
    with torch.device("meta"):
        decoder = Decoder(read(values))
    assert sum(p.numel() for p in decoder.parameters()) == known


@pytest.mark.parametrize("family", FIRST)
def test_an_unknown_key_is_refused_by_name(family):
    values = saved(family)
    read(values)
    with pytest.raises(UnsupportedModel, match="the key 'sigma_gate' "):
        read(values | {"sigma_gate": 0.5})


def test_every_reason_is_in_one_error():
    values = saved("llama") | {
        "sigma_gate": True,
        "hidden_act": "xielu",
        "is_encoder_decoder": True,
    }
    with pytest.raises(UnsupportedModel) as error:
        read(values)
    for reason in ("sigma_gate", "hidden_act is 'xielu'", "is_encoder_decoder is True"):
        assert reason in str(error.value)


def test_a_key_that_is_null_is_not_there():
    assert read(saved("llama") | {"sigma_gate": None}) == read(saved("llama"))


REFUSED = [
    ("llama", {"quantization_config": {"quant_method": "gptq"}}, "packed \\(gptq\\)"),
    ("llama", {"architectures": ["LlamaForSequenceClassification"]}, "SequenceClassification"),
    ("llama", {"vision_config": {}}, "vision_config: models with more than text"),
    ("llama", {"rope_interleaved": True}, "rope_interleaved is True"),
    ("gemma", {"hidden_act": "relu"}, "hidden_act is 'relu'"),
    ("gemma2", {"hidden_activation": "silu"}, "hidden_activation is 'silu'"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0"),
    (
        "qwen2",
        {"layer_types": ["full_attention", "linear_attention"] + ["full_attention"]},
        "linear",
    ),
    ("phi", {"hidden_act": "silu"}, "hidden_act is 'silu'"),
    ("phi3", {"attention_bias": True}, "attention_bias is True"),
    ("opt", {"_remove_final_layer_norm": True}, "_remove_final_layer_norm"),
    ("bloom", {"apply_residual_connection_post_layernorm": True}, "post_layernorm is True"),
    ("mpt", {"no_bias": False}, "no_bias is False"),
    ("mpt", {"attn_config": {"clip_qkv": 6}}, "clip_qkv is 6"),
    ("mpt", {"attn_config": {"alibi": False}}, "alibi is False"),
    ("mpt", {"attn_config": {"kv_n_heads": 2}}, "kv_n_heads"),
    ("falcon", {"new_decoder_architecture": True, "parallel_attn": False}, "parallel_attn"),
    ("gpt_neo", {"attention_types": [[["global"], 2]], "attention_layers": None}, "for 4 layers"),
    ("starcoder2", {"norm_type": "rms_norm"}, "norm_type is 'rms_norm'"),
]


@pytest.mark.parametrize("family, change, message", REFUSED)
def test_what_changes_the_mathematics_is_refused_by_name(family, change, message):
    with pytest.raises(UnsupportedModel, match=message):
        read(saved(family) | change)


def test_an_unknown_family_is_refused_with_those_that_are_known():
    with pytest.raises(UnsupportedModel, match="'mamba' is not supported; supported: bloom, fal"):
        find_family("mamba")
    with pytest.raises(UnsupportedModel, match="names no model_type"):
        find_family(None)


WRONG = [
    {"hidden_size": "big"},
    {"hidden_size": 2**80},
    {"hidden_size": True},
    {"num_hidden_layers": 10**9},
    {"num_hidden_layers": 0},
    {"num_attention_heads": 5},
    {"num_key_value_heads": 4},
    {"rms_norm_eps": "tiny"},
    {"rms_norm_eps": float("nan")},
    {"tie_word_embeddings": 1},
    {"rope_parameters": []},
    {"architectures": "LlamaForCausalLM"},
    {"vocab_size": None},
    {"max_position_embeddings": 2**40},
]


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_a_value_of_the_wrong_kind_is_a_clear_error(change):
    with pytest.raises(EdgeformerError):
        read(saved("llama") | change)


# RoPE


def llama3(spelling):
    scaling = {
        spelling: "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    return PUBLISHED["Llama-3.2-1B"][1] | {"rope_scaling": scaling}


@pytest.mark.parametrize("spelling", ["rope_type", "type"])
def test_llama3_scaling_keeps_blends_and_divides_the_pairs_it_should(spelling):
    """head_dim 64, theta 500000, factor 32: recomputed by hand in the bug reports."""
    rope = read(llama3(spelling)).rope
    frequencies, _ = rope_frequencies(rope, 64, 131072)
    ratio = 500000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64) / frequencies
    assert torch.allclose(ratio[:15], torch.ones(15, dtype=torch.float64))
    assert ((ratio[15:18] > 1.001) & (ratio[15:18] < 31.9)).all()
    assert torch.allclose(ratio[18:], torch.full((14,), 32.0, dtype=torch.float64))


@pytest.mark.parametrize(
    "block, message",
    [
        ({"rope_type": "mrope", "factor": 2.0}, "kind 'mrope' is not supported"),
        ({"rope_type": "default", "type": "mrope"}, "two kinds"),
        ({"rope_type": "linear", "factor": 2.0, "alpha": 3.0}, "the key 'alpha'"),
        ({"rope_type": "linear"}, "lacks the key factor"),
        ({"rope_type": "linear", "factor": float("inf")}, "factor is inf"),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}, "short_factor"),
        ({"rope_type": 7}, "kind '\\?'"),
    ],
)
def test_a_rope_that_is_not_understood_is_refused_by_name(block, message):
    with pytest.raises(EdgeformerError, match=message):
        read(PUBLISHED["TinyLlama-1.1B-Chat"][1] | {"rope_scaling": block})


OLD_AND_NEW = [
    (
        "TinyLlama-1.1B-Chat",
        {"rope_theta": 5000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_type": "linear", "factor": 2.0, "rope_theta": 5000.0},
    ),
    (
        "phi-1_5",
        {"rope_theta": 5000.0, "partial_rotary_factor": 0.25},
        {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.25},
    ),
    (
        "pythia-70m",
        {"rotary_emb_base": 5000, "rotary_pct": 0.5},
        {"rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.5},
    ),
    (
        "gemma-3-270m-it",
        {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 70.0},
        {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
        },
    ),
]


@pytest.mark.parametrize("name, old, new", OLD_AND_NEW)
def test_keys_of_transformers_4_and_5_say_the_same(name, old, new):
    values = PUBLISHED[name][1]
    gone = ("rope_theta", "rope_scaling", "rope_local_base_freq", "partial_rotary_factor")
    bare = {k: v for k, v in values.items() if k not in (*gone, "rotary_pct", "rotary_emb_base")}
    config = read(values | old)
    assert config == read(bare | {"rope_parameters": new})
    assert config != read(values)


def test_phi3_reads_the_first_name_of_longrope():
    values = PUBLISHED["Phi-3-mini-4k-instruct"][1] | {"max_position_embeddings": 131072}
    factors = {"short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    su = read(values | {"rope_scaling": {"type": "su", **factors}})
    assert su == read(values | {"rope_scaling": {"rope_type": "longrope", **factors}})
    assert su.rope.scaling.factor == 32.0


def test_qwen2_has_its_biases_without_a_key_for_them():
    assert read(PUBLISHED["Qwen2.5-0.5B-Instruct"][1]).qkv_bias


def test_mistral_without_the_key_has_a_window_and_with_null_none():
    values = dict(PUBLISHED["Mistral-7B-v0.1"][1])
    del values["sliding_window"]
    assert read(values).window == 4096
    assert read(values | {"sliding_window": None}).window is None


def test_gemma2_caps_are_taken_away_by_null_only():
    values = dict(PUBLISHED["gemma-2-2b"][1])
    del values["attn_logit_softcapping"]
    assert read(values).attention_soft_cap == 50.0
    assert read(values | {"attn_logit_softcapping": None}).attention_soft_cap is None


def test_families_are_named_as_configs_name_them():
    assert set(FIRST) == set(FAMILIES) - {ours.NAME}
