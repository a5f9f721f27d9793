"""`generate` on hostile prompts and under deadlines, as a child process."""

import subprocess
import sys

from tests import bundles
from tests.test_cli import SLOW, environment


def test_a_deadline_ends_a_slow_answer_with_status_0():
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            SLOW % 0.05,
            "generate",
            bundles.LEARNED,
            "the",
            "--deadline",
            "0.3",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=60,
    )
    assert child.returncode == 0
    assert b"\ndeadline: " in child.stderr
    assert 1 <= len(child.stdout) < 12  # of 30 characters
