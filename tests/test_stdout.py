"""A disk that is full behind standard output, for every program."""

import os
import subprocess
import sys

import pytest

from tests import bundles
from tests.test_cli import ROOT, command, environment


@pytest.mark.parametrize("verb", ["generate", "info", "bench"])
def test_a_full_disk_behind_stdout_is_an_error_without_a_traceback(verb):
    more = {"generate": ["the cat"], "bench": ["--rounds", "1", "--new-tokens", "2"]}
    words = command(verb, bundles.ROPE, *more.get(verb, []))
    with open("/dev/full", "wb") as full:
        child = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=environment())
    told = child.stderr.decode()
    assert child.returncode == 2 and "Traceback" not in told and "Exception ignored" not in told
    assert "error: standard output takes no more: No space left on device" in told


SCRIPTS = ("compare", "presets", "selftest", "accept", "prediction", "bench")


@pytest.mark.skipif(sys.version_info < (3, 10), reason="they are of the host half")
@pytest.mark.parametrize("program", [*SCRIPTS, "edgeformer.export", "benchmarks.peers"])
def test_a_full_disk_behind_help_is_an_error_of_every_program(program):
    path = os.path.join(ROOT, "benchmarks", program + ".py")
    words = [path] if program in SCRIPTS else ["-m", program]
    with open("/dev/full", "wb") as full:
        child = subprocess.run(
            [sys.executable, *words, "--help"],
            stdout=full, stderr=subprocess.PIPE, env=environment(), cwd=ROOT,
        )  # fmt: skip
    told = child.stderr.decode()
    assert child.returncode == 2 and "Traceback" not in told and "Exception ignored" not in told
    assert "error: standard output takes no more: No space left on device" in told
