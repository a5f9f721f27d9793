"""Every choice of a config gives its golden tokens through TensorRT's bindings."""

import os
from pathlib import Path

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.generation.golden import golden_mismatches
from tests.bundles import copied
from tests.export.graph_rows import Bundles
from tests.nn.choices import CHOICES
from tests.standin import libraries
from tests.standin.arithmetic import add_engines, execute

RELEASE = os.environ[libraries.VARIABLE]
COLUMNS = {"8.6.1": "standin 8.6", "10.3.0": "standin 10.3", "11.4.0": "standin 11"}
pytestmark = pytest.mark.skipif(
    RELEASE not in (*COLUMNS, libraries.AS_821), reason="this release is like its neighbours"
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The bundle of a choice: exported by the first release that is run, for all of them."""
    folder = os.environ.get(libraries.VARIABLE + "_BUNDLES") or tmp_path_factory.mktemp("bundles")
    bundles = Bundles(Path(folder))

    def path_of(name):
        found = bundles.folder / name
        return str(found if found.exists() else bundles[name].path)

    return path_of


@pytest.mark.proves("choice", *(COLUMNS[r] for r in COLUMNS if r == RELEASE))
@pytest.mark.parametrize("name", CHOICES)
def test_it_gives_its_golden_tokens(name, exported, standin, tmp_path):
    standin.set_executor(execute)
    path = copied(exported(name), tmp_path)
    add_engines(path, layout="split")
    bundle = Bundle.open(path)
    assert len(set(bundle.manifest.golden.greedy_ids)) >= 16
    with open_backend(bundle, "trt") as backend:
        assert golden_mismatches(backend, bundle.manifest) == []
