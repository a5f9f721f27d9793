"""Collects the tier `real` only where its runner, `make real-model`, has left what it needs."""

import json
import os

import pytest

from tests.real.files import REFERENCE, VARIABLE

collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]


@pytest.fixture(scope="session")
def reference():
    """What `transformers` says of the model: see tests/real/reference.py."""
    with open(REFERENCE, encoding="utf-8") as file:
        return json.load(file)
