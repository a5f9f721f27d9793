"""docker/health.py: a container that answers, and ones in which a library dies or lies."""

import os
import subprocess
import sys

import pytest

from tests.device import boards
from tests.docker import machines
from tests.py36_grammar import ROOT


def health(modules):
    path = os.pathsep.join([str(modules), ROOT])
    done = subprocess.run(
        [sys.executable, os.path.join(machines.FOLDER, "health.py")],
        env=dict(os.environ, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        timeout=120,
    )
    return done.returncode, done.stdout.decode("utf-8")


def test_a_container_in_order_is_healthy_and_silent(tmp_path):
    assert health(tmp_path) == (0, "")


@pytest.mark.parametrize(
    "module, text, told",
    [
        ("numpy", "import os; os.kill(os.getpid(), 4)", "numpy : SIGILL"),
        ("numpy", "raise ImportError('libopenblas is gone')", "libopenblas is gone"),
        ("onnxruntime", "import os; os.abort()", "onnxruntime : SIGABRT"),
        ("onnxruntime", "raise ImportError('numpy.core')", "numpy.core"),
    ],
)
def test_a_library_that_fails_makes_it_unhealthy(module, text, told, tmp_path):
    boards.write(tmp_path, module + ".py", text + "\n")
    status, output = health(tmp_path)
    assert (status, told in output) == (1, True), output
