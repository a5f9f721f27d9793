"""Collects the tier `rtx` only where its runner, `make test-rtx`, asks for it."""

import os

import pytest

from tests.rtx.library import VARIABLE, Library, installed

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.fspath.dirname == os.path.dirname(__file__):
            item.add_marker(pytest.mark.rtx)


@pytest.fixture(scope="session")
def rtx():
    assert installed().is_dir(), "run: make test-rtx"
    library = Library()
    yield library
    library.close()
