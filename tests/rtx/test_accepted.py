"""TensorRT's own parser and builder take what the exporter writes, for the profiles of engines."""

from __future__ import annotations

import pytest
import torch

from edgeformer.nn.decoder import Decoder
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.presets import PRESETS
from edgeformer.nn.sources import open_source
from tests.nn.choices import CHOICES, choice_decoder
from tests.nn.families.models import reference
from tests.nn.families.shapes import SHAPES
from tests.rtx.graphs import PRECISIONS, shared, split, write_graphs

BIG = ("15m", "42m", "110m", "135m")  # seconds and hundreds of MB each
PRECISION = pytest.mark.parametrize("precision", PRECISIONS)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(rtx, decoder, precision, folder):
    """One token over a cache of one size, and any chunk over one that grows."""
    capacity = min(512, decoder.config.max_positions)
    chunk = min(128, capacity)
    graphs = write_graphs(decoder, folder / "graphs", precision)
    profiles = {
        "decode": split(graphs, capacity, chunk)["decode"],
        "prefill": shared(graphs, capacity, chunk)["prefill"],
    }
    for kind, profile in profiles.items():
        built = rtx.build(folder / "graphs" / graphs[kind].file, graphs[kind], profile)
        assert built.layers > 40
        assert built.bytes > 1000


@pytest.mark.proves("choice", "rtx {precision}")
@PRECISION
@pytest.mark.parametrize("name", CHOICES)
def test_each_choice_of_a_config_builds(name, precision, rtx, tmp_path):
    build(rtx, choice_decoder(name), precision, tmp_path)


@pytest.mark.proves("family", "rtx {precision}")
@PRECISION
@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_of_a_family_builds(name, precision, rtx, tmp_path):
    reference(name).save_pretrained(tmp_path / "checkpoint")
    build(rtx, load_decoder(open_source(tmp_path / "checkpoint")), precision, tmp_path)


@pytest.mark.proves("preset", "rtx {precision}")
@PRECISION
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in BIG else n for n in PRESETS]
)
def test_each_preset_builds_whole(name, precision, rtx, tmp_path):
    decoder = Decoder(PRESETS[name])
    decoder.reset_parameters(0.3, torch.Generator().manual_seed(0))
    build(rtx, decoder.eval(), precision, tmp_path)
