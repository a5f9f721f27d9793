import pytest
import torch

from tests.export.graph_rows import Bundles


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny models are slower on several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def bundles(tmp_path_factory):
    """Bundles of the tiny models by name of their choice, each exported once."""
    return Bundles(tmp_path_factory.mktemp("bundles"))
