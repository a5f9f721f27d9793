"""A tiny random Llama through two engines: ours and transformers, both of which .venv has."""

import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.peers import environments as envs
from benchmarks.peers.engines import parse_engines
from benchmarks.peers.forms import Forms
from benchmarks.peers.series import Case, Series, Settings
from edgeformer.device.monitor import Monitor

SETTINGS = Settings(rounds=2, threads=1, prompt_tokens=[8, 150], new_tokens=24, windows=1)
BOTH = "edgeformer:fp32,transformers:fp32"


def save_llama(folder, seed):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=160, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        initializer_range=0.5, tie_word_embeddings=False,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """An environment folder in which transformers is the Python that runs the tests."""
    folder = tmp_path_factory.mktemp("peers")
    (folder / "transformers").symlink_to(Path(sys.prefix), target_is_directory=True)
    pins = (envs.REQUIREMENTS / "transformers.txt").read_text()
    (folder / "transformers.installed").write_text(pins)
    return envs.Environments(folder)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return save_llama(tmp_path_factory.mktemp("model") / "tiny", seed=5)


@pytest.fixture(scope="session")
def forms(tmp_path_factory, installed, model):
    return Forms(model, SETTINGS.capacity, tmp_path_factory.mktemp("forms"), installed)


@pytest.fixture(scope="session")
def new_series(forms):
    def make(engines, settings=SETTINGS):
        cases = [Case(chosen) for chosen in parse_engines(engines)]
        return Series(cases, forms, settings, Monitor(), lambda line: None)

    return make


@pytest.fixture(scope="session")
def done(new_series):
    """A whole series of both, measured once."""
    series = new_series(BOTH)
    with series.monitor:
        series.run(lambda: 2e10)
    return series
