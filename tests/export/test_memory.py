"""An export holds one copy of the weights beside PyTorch's, whatever their number."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
from edgeformer.export import export_decoder
from edgeformer.export.source import random_decoder
from edgeformer.nn.presets import PRESETS
from tests.peak import peak_bytes
decoder = random_decoder(PRESETS[sys.argv[1]], 0)
weights = sum(p.numel() * 4 for p in decoder.parameters())
made = export_decoder(decoder, sys.argv[2], name="big", capacity=96)
peak = peak_bytes()
print(weights, peak, made.bytes, made.golden.distinct)
"""


@pytest.mark.slow
@pytest.mark.parametrize("preset", ("110m", "135m"))
def test_peak_memory_is_below_three_times_the_weights_and_500_mb(preset, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, preset, str(tmp_path / "b")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    weights, peak, stored, distinct = map(int, done.stdout.split())
    print(f"{preset}: weights {weights / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB")
    assert weights > 400e6
    assert peak < 3 * weights + 500e6
    assert stored < 1.05 * weights + 10e6
    assert distinct >= 16
