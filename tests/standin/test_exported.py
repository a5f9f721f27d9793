"""A bundle that the exporter writes now, not a committed one, runs through TensorRT's bindings."""

import subprocess
import sys

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.generation.golden import golden_mismatches
from tests.standin import libraries
from tests.standin.arithmetic import add_engines, execute


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("exported") / "bundle")
    command = [sys.executable, "-m", "edgeformer.export", "--preset", "nano-start", "-o", path]
    subprocess.run(command, cwd=libraries.ROOT, check=True, timeout=300, stdout=subprocess.PIPE)
    return path


@pytest.mark.skipif(libraries.PYTHON != "host", reason="the exporter is of the host half")
@pytest.mark.parametrize("layout", ["split", "shared"])
def test_a_preset_exported_on_the_spot_gives_its_golden_tokens(layout, exported, standin):
    standin.set_executor(execute)
    add_engines(exported, layout=layout)
    bundle = Bundle.open(exported)
    assert len(set(bundle.manifest.golden.greedy_ids)) >= 16
    with open_backend(bundle, "trt") as backend:
        assert layout in backend.reason
        assert golden_mismatches(backend, bundle.manifest) == []
