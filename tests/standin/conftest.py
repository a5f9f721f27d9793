"""Collects the tier `standin` only where its runner (tests/standin/run.py) asks for a release."""

import os
import tempfile

import pytest

from tests.standin import libraries

RELEASE = os.environ.get(libraries.VARIABLE)
collect_ignore_glob = [] if RELEASE else ["test_*.py"]

if RELEASE:
    FOLDER = os.environ.setdefault(libraries.VARIABLE + "_FOLDER", tempfile.mkdtemp())
    STANDIN = libraries.load(RELEASE, FOLDER)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.fspath.dirname == libraries.HERE:
            item.add_marker(pytest.mark.standin)


@pytest.fixture
def standin():
    """The stand-ins. A rule that a test breaks without expecting it fails the test."""
    STANDIN.fault()
    before = STANDIN.used_memory()
    yield STANDIN
    assert STANDIN.fault() == ""
    assert STANDIN.depth() == 0
    assert STANDIN.used_memory() == before, "GPU memory was not given back"
