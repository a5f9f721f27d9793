"""TrtBackend through real bindings and real pycuda computes what the bundle promises."""

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.generation.golden import golden_mismatches
from tests import bundles
from tests.standin.arithmetic import add_engines, execute


@pytest.fixture(autouse=True)
def arithmetic(standin):
    standin.set_executor(execute)


def opened(source, folder, cuda_graph=True, **engines):
    """A copy of a bundle with engines, opened as users open it."""
    path = bundles.copied(source, folder)
    add_engines(path, **engines)
    bundle = Bundle.open(path)
    return open_backend(bundle, "trt", cuda_graph=cuda_graph), bundle


@pytest.mark.parametrize("source", bundles.BOTH)
@pytest.mark.parametrize("layout", ["split", "shared"])
@pytest.mark.parametrize("cuda_graph", [True, False])
def test_golden_tokens(source, layout, cuda_graph, tmp_path, standin):
    launches = standin.count("launches")
    backend, bundle = opened(source, tmp_path, cuda_graph, layout=layout)
    with backend:
        assert golden_mismatches(backend, bundle.manifest) == []
        assert golden_mismatches(backend, bundle.manifest) == []
    assert (standin.count("launches") > launches) == cuda_graph
