"""A configuration that cannot exist is refused, with the numbers that contradict each other."""

import dataclasses
import json
import subprocess
import sys

import pytest

from edgeformer.nn.config import ConfigError, ModelConfig, Rope, RopeScaling
from tests.nn.choices import CHOICES, PLAIN

LONGROPE = {"kind": "longrope", "original_max_positions": 20}
DIVISORS = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}


def scaled(**scaling) -> dict:
    return {"rope": {"scaling": scaling}}


REFUSED = {
    # what is changed in PLAIN (d_model 32, 4 heads over 2, head_dim 8, 2 layers): all of the words
    "heads-do-not-divide": ({"n_heads": 5, "n_kv_heads": 5, "head_dim": None}, "32 5 head_dim"),
    "kv-heads-do-not-divide": ({"n_kv_heads": 3}, "n_heads 4 n_kv_heads 3"),
    "kv-heads-above-heads": ({"n_kv_heads": 8}, "n_heads 4 n_kv_heads 8"),
    "no-layers": ({"n_layers": 0}, "n_layers 0 1"),
    "negative-d-ff": ({"d_ff": -48}, "d_ff -48"),
    "bool-size": ({"d_model": True}, "d_model True int"),
    "float-size": ({"vocab_size": 96.0}, "vocab_size 96.0 int"),
    "text-size": ({"n_heads": "4"}, "n_heads '4' int"),
    "no-size": ({"max_positions": None}, "max_positions None int"),
    "absurd-vocabulary": ({"vocab_size": 10**12}, "vocab_size 1000000000000 4194304"),
    "absurd-layers": ({"n_layers": 10**6}, "n_layers 1000000 1024"),
    "absurd-table": (
        {"max_positions": 2**20, "head_dim": 512},
        "1048576 512 max_positions 268435456",
    ),
    "absurd-learned": (
        {"position": "learned", "max_positions": 2**20, "d_model": 2**12},
        "1048576 4096 max_positions",
    ),
    "unknown-choice": ({"norm": "batchnorm"}, "norm 'batchnorm' 'rmsnorm' 'layernorm'"),
    "unknown-position": ({"position": "rotary"}, "position 'rotary' 'rope' 'alibi'"),
    "list-for-a-choice": ({"norm": ["rmsnorm"]}, "norm ['rmsnorm'] 'layernorm'"),
    "int-for-a-bool": ({"qkv_bias": 1}, "qkv_bias 1 bool"),
    "nan": ({"norm_eps": float("nan")}, "norm_eps nan"),
    "infinite": ({"attention_scale": float("inf")}, "attention_scale inf"),
    "zero-eps": ({"norm_eps": 0.0}, "norm_eps 0.0"),
    "negative-cap": ({"logit_soft_cap": -30.0}, "logit_soft_cap -30.0"),
    "zero-scale": ({"attention_scale": 0}, "attention_scale 0"),
    "zero-multiplier": ({"residual_multiplier": 0.0}, "residual_multiplier 0.0"),
    "dropout-1": ({"dropout": 1.0}, "dropout 1.0"),
    "window-0": ({"window": 0}, "window 0"),
    "negative-window": ({"window": [4, -1]}, "window -1"),
    "int32-window": ({"window": 2**31}, "window 2147483648 1073741824"),
    "bool-window": ({"window": True}, "window True"),
    "windows-too-few": ({"window": [4]}, "window 1 entries 2 layers"),
    "windows-too-many": ({"window": [4, None, 4]}, "window 3 entries 2 layers"),
    "plus-one-layernorm": ({"norm": "layernorm", "norm_plus_one": True}, "rmsnorm 'layernorm'"),
    "parallel-post": (
        {"parallel": "two_norms", "norm_placement": "post"},
        "'two_norms' 'pre' 'post'",
    ),
    "offset-without-table": ({"position_offset": 2}, "position_offset 2 'learned' 'rope'"),
    "negative-offset": ({"position": "learned", "position_offset": -1}, "position_offset -1"),
    "rope-without-rope": ({"position": "alibi", "rope": {"theta": 5.0}}, "rope 'alibi'"),
    "rope-layers-without-rope": (
        {"position": "none", "rope_layers": ["none", "none"]},
        "rope_layers 'none'",
    ),
    "rope-layers-too-few": ({"rope_layers": ["global"]}, "rope_layers 1 entries 2 layers"),
    "local-without-local-rope": ({"rope_layers": ["local", "global"]}, "local_rope None 'local'"),
    "local-rope-unused": ({"local_rope": {"theta": 5.0}}, "local_rope theta=5.0"),
    "unknown-rope-layer": ({"rope_layers": ["global", "off"]}, "rope_layers 'off' 'global'"),
    "odd-width": ({"rope": {"width": 5}}, "width 5 even head_dim 8"),
    "width-above-head": ({"rope": {"width": 10}}, "width 10 head_dim 8"),
    "zero-width": ({"rope": {"width": 0}}, "width 0 head_dim 8"),
    "odd-head": ({"head_dim": 7}, "width 7 even head_dim 7"),
    "theta-1": ({"rope": {"theta": 1.0}}, "theta 1.0 above 1"),
    "theta-text": ({"rope": {"theta": "10000"}}, "theta '10000'"),
    "unknown-rope-key": ({"rope": {"base": 500.0}}, "rope 'base' theta width"),
    "unknown-scaling": (scaled(kind="ntk", factor=2.0), "kind 'ntk' 'llama3' 'yarn'"),
    "scaling-without-kind": (scaled(factor=2.0), "rope scaling kind"),
    "unknown-scaling-key": (scaled(kind="linear", rope_factor=2.0), "'rope_factor'"),
    "factor-below-1": (scaled(kind="linear", factor=0.5), "factor 0.5 1"),
    "no-original": (scaled(kind="llama3", factor=2.0), "'llama3' original_max_positions None"),
    "key-of-another-kind": (
        scaled(kind="linear", factor=2.0, original_max_positions=20),
        "'linear' original_max_positions 20",
    ),
    "llama3-bounds": (
        scaled(kind="llama3", original_max_positions=20, low_freq_factor=4, high_freq_factor=4),
        "low_freq_factor 4.0 high_freq_factor",
    ),
    "yarn-bounds": (
        scaled(kind="yarn", original_max_positions=20, beta_fast=1, beta_slow=2),
        "beta_slow 2.0 beta_fast 1.0",
    ),
    "negative-mscale": (
        scaled(kind="yarn", original_max_positions=20, mscale=-1.0),
        "mscale -1.0",
    ),
    "dynamic-width-2": (
        {"rope": {"width": 2, "scaling": {"kind": "dynamic", "original_max_positions": 20}}},
        "'dynamic' 4 2",
    ),
    "no-divisors": (scaled(**LONGROPE), "short_factor 0 width 8 4"),
    "divisors-too-few": (
        scaled(**LONGROPE, **{**DIVISORS, "long_factor": [1.0] * 3}),
        "long_factor 3 width 8 4",
    ),
    "zero-divisor": (
        scaled(**LONGROPE, **{**DIVISORS, "short_factor": [1.0, 0.0, 1.0, 1.0]}),
        "short_factor 0.0",
    ),
    "text-divisor": (
        scaled(**LONGROPE, **{**DIVISORS, "short_factor": [1.0, "2", 1.0, 1.0]}),
        "short_factor '2'",
    ),
    "alibi-key-without-alibi": ({"alibi_scale": 0.5}, "alibi_scale 0.5 'alibi' 'rope'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_configs_are_refused_with_the_numbers(name):
    changes, words = REFUSED[name]
    with pytest.raises(ConfigError) as from_json:
        ModelConfig.from_json({**PLAIN.to_json(), **changes})
    for word in words.split():
        assert word in str(from_json.value)
    assert from_json.value.exit_code == 2
    if "'" not in words:  # what JSON cannot say at all is refused from Python just so
        with pytest.raises(ConfigError):
            dataclasses.replace(PLAIN, **changes)


@pytest.mark.parametrize("name", CHOICES)
def test_json_gives_back_the_same_config(name):
    config = CHOICES[name]
    assert ModelConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_python_and_json_make_the_same_record():
    written = {**PLAIN.to_json(), "window": [4, None], "norm_eps": 1, "rope": {"theta": 500}}
    config = ModelConfig.from_json(written)
    assert config == dataclasses.replace(PLAIN, window=[4, None], norm_eps=1, rope=Rope(500))
    assert config.window == (4, None)
    assert type(config.norm_eps) is type(config.rope.theta) is float
    assert hash(config) == hash(ModelConfig.from_json(config.to_json()))


def test_defaults_are_derived_from_the_other_sizes():
    config = ModelConfig(vocab_size=9, d_model=24, n_layers=1, n_heads=3, d_ff=5, max_positions=7)
    assert (config.n_kv_heads, config.head_dim, config.kv_width) == (3, 8, 24)
    assert config.scale == 8**-0.5
    assert dataclasses.replace(config, attention_scale=0.3).scale == 0.3


@pytest.mark.parametrize("values", (None, [], "x", 3, [["vocab_size", 1]]))
def test_json_that_is_no_table_is_refused(values):
    with pytest.raises(ConfigError, match="table of keys"):
        ModelConfig.from_json(values)


def test_missing_and_unknown_keys_are_named():
    values = PLAIN.to_json()
    del values["d_ff"], values["n_heads"]
    with pytest.raises(ConfigError, match="n_heads, d_ff"):
        ModelConfig.from_json(values)
    with pytest.raises(ConfigError, match=r"'n_head'.*known: .*n_heads"):
        ModelConfig.from_json({**PLAIN.to_json(), "n_head": 4})


def test_a_scaling_is_checked_against_the_rope_it_belongs_to():
    """The width decides how many divisors there are; the default is the whole head."""
    scaling = RopeScaling(**LONGROPE, **DIVISORS)
    assert dataclasses.replace(PLAIN, rope=Rope(scaling=scaling)).rope.scaling == scaling
    with pytest.raises(ConfigError, match=r"4 entries, but rope width 4 has 2"):
        dataclasses.replace(PLAIN, rope=Rope(width=4, scaling=scaling))


def test_configs_are_read_without_torch():
    code = "import sys, edgeformer.nn.config; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
