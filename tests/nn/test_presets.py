"""The cost formulas against real decoders on the meta device, and PyTorch's own FLOP counter."""

import json
import math
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from edgeformer.nn.costs import costs
from edgeformer.nn.decoder import Decoder
from edgeformer.nn.presets import PRESETS, main
from edgeformer.nn.step import CachedStep
from tests.nn.choices import CHOICES

CONFIGS = {**PRESETS, **CHOICES}
EVERY = pytest.mark.parametrize("name", CONFIGS)
# what the models whose shape a preset has are known to hold
PUBLISHED = {"15m": 15_191_712, "110m": 109_529_856, "135m": 134_515_008}
CLASSES = {"1m": 1e6, "5m": 5e6, "15m": 15e6, "42m": 42e6, "110m": 110e6, "135m": 135e6}


def on_meta(name: str) -> Decoder:
    with torch.device("meta"):
        return Decoder(CONFIGS[name]).eval()


@EVERY
def test_parameters_and_weight_bytes_are_those_of_a_real_decoder(name):
    state = on_meta(name).state_dict()
    found = costs(CONFIGS[name])
    assert found.parameters == sum(t.numel() for t in state.values())
    matrices = [t for key, t in state.items() if t.dim() == 2 and "norm" not in key]
    plain = found.parameters - sum(t.numel() for t in matrices)
    int8 = sum(t.numel() + 4 * t.shape[0] for t in matrices)
    int4 = sum(t.shape[0] * math.ceil(t.shape[1] / 32) * (16 + 2) for t in matrices)
    assert found.weight_bytes == {
        "fp32": 4 * found.parameters,
        "fp16": 2 * found.parameters,
        "int8": int8 + 4 * plain,
        "int4": int4 + 4 * plain,
    }


@EVERY
@torch.no_grad()
def test_flops_and_cache_bytes_are_those_of_a_step_at_full_capacity(name):
    """T = 1 against max_positions - 1 cached rows: the last token that fits."""
    config = CONFIGS[name]
    with torch.device("meta"):
        step = CachedStep(on_meta(name))
        inputs = step.example_inputs(tokens=1, past=config.max_positions - 1, rows=1)
        with FlopCounterMode(display=False) as counter:
            step(*inputs)
    assert counter.get_total_flops() == costs(config).flops_per_token
    row = sum(t[0].numel() for t in inputs[4:])  # one row of every key and value
    cached = costs(config).cache_bytes
    assert cached == {"fp32": 4 * row * config.max_positions, "fp16": cached["fp32"] // 2}


@pytest.mark.parametrize("name", PUBLISHED)
def test_shapes_of_published_models_have_their_number_of_parameters(name):
    assert costs(PRESETS[name]).parameters == PUBLISHED[name]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_about_the_parameters_that_its_name_says(name):
    assert costs(PRESETS[name]).parameters == pytest.approx(CLASSES[name], rel=0.05)


def test_the_nano_ladder_covers_the_documented_sizes():
    start = PRESETS["nano-start"]
    shape = (start.d_model, start.n_heads, start.d_ff, start.max_positions, start.n_layers)
    assert shape == (128, 4, 256, 32, 1)
    nano = [c for name, c in PRESETS.items() if name.startswith("nano")]
    assert {c.d_model for c in nano} == {64, 128}
    assert {c.n_heads for c in nano} == {2, 4}
    assert {c.max_positions for c in nano} == {16, 32, 64}
    assert {c.d_ff // c.d_model for c in nano} == {2, 4}


def test_the_table_has_a_line_for_each_preset_and_the_formulas(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : len(PRESETS) + 1]] == list(PRESETS)
    assert " 135 M " in lines[len(PRESETS)]
    assert any(line.startswith("FLOP/token: 2 * elements") for line in lines)


def test_the_command_gives_exact_numbers_as_json_without_torch():
    code = (
        "import sys, edgeformer.nn.presets as p; p.main(['--json']); "
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert list(found["presets"]) == list(PRESETS)
    entry = found["presets"]["nano-start"]
    assert entry["model"] == PRESETS["nano-start"].to_json()
    # embedding, query key value and output, gate up and down, three norms
    assert entry["parameters"] == 256 * 128 + 4 * 128 * 128 + 3 * 128 * 256 + 3 * 128
    assert entry["weight_bytes"]["fp32"] == 4 * entry["parameters"]


def test_presets_cannot_be_changed():
    with pytest.raises(TypeError):
        PRESETS["nano-start"] = PRESETS["1m"]
