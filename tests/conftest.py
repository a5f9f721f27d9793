"""What each Python collects. Python 3.6 runs every test but those of the host half."""

import os
import signal
import sys

import pytest

from tests import tiers

# A suite that a script starts in the background ignores Ctrl-C, and so would the programs whose
# Ctrl-C is tested.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = os.path.dirname(os.path.abspath(__file__))

# Tests that need torch, onnx or a Python newer than 3.6. tests/test_repository.py holds this list
# against what each file imports, so a device test cannot end up here by mistake.
HOST_ONLY = [
    "nn",
    "export",
    "benchmarks/peers",
    "arm64",
    "rtx",
    "test_tiers.py",
    "standin/test_choices.py",
    "test_repository.py",
    "test_readme.py",
    "test_packaging.py",
    "test_images.py",
    "text/test_chat_reference.py",
    "benchmarks/test_classes.py",
    "benchmarks/test_page.py",
    "bench/test_schema_reference.py",
    "generation/constraint/test_schemas.py",
]

collect_ignore = []
if sys.version_info < (3, 10) or os.environ.get("EDGEFORMER_DEVICE_ONLY"):
    collect_ignore = [os.path.join(HERE, name) for name in HOST_ONLY]


def pytest_report_header(config):
    """Say what is left out, so that a short run cannot pass for a whole one."""
    if collect_ignore:
        return "host-only, not collected on this Python: " + ", ".join(HOST_ONLY)
    return "all tests are collected"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    tiers.record_report(item, outcome.get_result())
