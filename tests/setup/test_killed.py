"""jetson_setup.sh is killed, as by a lost supply, and taken up by the next run to the same end."""

import re

import pytest

from tests.setup import machines

READS = ("dpkg-query", "uname", "df", "sync", "systemctl is-enabled", "systemctl get-default")


def killed(board, kill):
    """Whether a run was ended there."""
    status, output = board.run("--yes", KILL=kill)
    assert status in (0, -9), output
    return status == -9


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_is_killed_at_any_command_is_taken_up_to_the_same_end(when, part, tmp_path):
    whole = machines.nano(tmp_path / "whole")
    fresh = machines.copied(whole, tmp_path / "fresh")
    assert whole.run("--yes")[0] == 0
    number, wanted = len(whole.calls()), whole.state()
    stops = [n for n, call in enumerate(whole.calls(), 1) if not call.startswith(READS)]
    assert len(stops) > 25
    for n in stops[part::4]:
        board = machines.copied(fresh, tmp_path / ("%s-%d" % (when, n)))
        if not killed(board, "%s %d" % (when, n)):
            continue  # a program that has no end of its own to be killed at
        status, output = board.run("--yes")
        assert status == 0, (n, number, output)
        found = board.state()
        assert named(found, board) == named(wanted, whole), whole.calls()[n - 1]


def named(state, board):
    """Paths of the fake's own folder are not part of a state."""
    return {path: text.replace(board.folder.encode(), b"") for path, text in state.items()}


@pytest.mark.slow
def test_a_run_that_is_killed_between_the_moments_of_its_steps_is_taken_up(tmp_path):
    """A few of the many places of the slow test above: swap, a file's rename, venv, pip."""
    whole = machines.nano(tmp_path / "whole")
    fresh = machines.copied(whole, tmp_path / "fresh")
    assert whole.run("--yes")[0] == 0
    calls, wanted = whole.calls(), whole.state()
    for place, pattern in (
        ("before", r"mkswap"),
        ("before", r"mv .*etc/fstab$"),
        ("midway", r"python3 -m venv"),
        ("midway", r"python .*onnxruntime=="),
    ):
        n = next(n for n, call in enumerate(calls, 1) if re.match(pattern, call))
        board = machines.copied(fresh, tmp_path / ("%s-%d" % (place, n)))
        assert killed(board, "%s %d" % (place, n)), pattern
        assert board.run("--yes")[0] == 0
        assert named(board.state(), board) == named(wanted, whole), pattern
