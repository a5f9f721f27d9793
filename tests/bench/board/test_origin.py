"""A report's commit is one that others can get, and its times are some that can have been."""

import os
import subprocess

import pytest

from edgeformer.bench import commits
from edgeformer.bench.board import origin
from tests.bench.board.made import nano_report

COMMITTED, NOW = "2026-11-01T12:00:00Z", "2026-11-20T12:00:00Z"


def git(folder, *words):
    identity = {"%s_%s" % (who, what): "x" for who in ("GIT_AUTHOR", "GIT_COMMITTER")
                for what in ("NAME", "EMAIL")}  # fmt: skip
    day = {"GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE": COMMITTED}
    told = subprocess.check_output(
        ["git", "-C", str(folder), *words], env=dict(os.environ, **identity, **day)
    )
    return told.decode().strip()


@pytest.fixture
def clone(tmp_path):
    """A repository of two commits."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(2):
        git(folder, "commit", "-q", "--allow-empty", "-m", str(number))
    return folder


@pytest.fixture
def report(clone, tmp_path):
    made = nano_report(tmp_path)
    made.update(commit=git(clone, "rev-parse", "HEAD"), made="2026-11-10T13:00:00Z")
    made["bundles"][0]["bench"].update(commit=made["commit"], made="2026-11-10T12:30:00Z")
    return made


def against(report, clone):
    return origin.reasons(report, commits.history(str(clone)), commits.seconds_of(NOW))


def bench(report):
    return report["bundles"][0]["bench"]


def test_a_commit_of_the_history_and_a_time_after_it_are_believed(report, clone):
    assert against(report, clone) == []
    assert origin.unknown(report, commits.history(str(clone))) is None


def test_changed_code_of_a_known_commit_is_not_said_to_be_unknown(report, clone):
    report["commit"] += "-dirty"  # the judge refuses it for that
    report["made"] = "2020-01-01T00:00:00Z"
    told = against(report, clone)
    assert not any("is unknown" in reason for reason in told)
    assert any("it was made before its commit" in reason for reason in told)


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda r: r.update(commit="c" * 40), "its commit %s is unknown" % ("c" * 40)),
        (lambda r: r.update(commit="c" * 40 + "-dirty"), "is unknown: this repository's history"),
        (lambda r: r.update(made="2026-11-21T13:00:00Z"), "it was made in the future: 2026-11-21"),
        (lambda r: bench(r).update(made="2027-01-01T00:00:00Z"), "measuring was made in the fut"),
        (lambda r: r.update(made="1970-01-01T00:03:00Z"), "the commit is of 2026-11-01T12:00:00Z"),
        (lambda r: bench(r).update(made="2026-11-01T11:00:00Z"), "measuring was made before its"),
        (lambda r: bench(r).update(made="2026-11-12T11:00:00Z"), "after the whole report was made"),
        (lambda r: r.update(made="2026-02-31T12:00:00Z"), "2026-02-31T12:00:00Z, which is no time"),
    ],
)
def test_what_cannot_have_been_is_told_with_both_times(report, clone, change, why):
    change(report)
    assert any(why in reason for reason in against(report, clone)), against(report, clone)


def test_clocks_of_two_machines_may_differ_by_minutes(report, clone):
    report["made"] = bench(report)["made"] = "2026-11-01T11:55:00Z"
    assert against(report, clone) == []


def test_without_all_history_an_unknown_commit_is_told_and_not_refused(report, clone, tmp_path):
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", "file://%s" % clone, str(shallow))
    report["commit"] = git(clone, "rev-parse", "HEAD~")
    assert against(report, shallow) == []
    told = origin.unknown(report, commits.history(str(shallow)))
    assert report["commit"] in told and "git fetch --unshallow" in told
    copy = tmp_path / "copy"
    copy.mkdir()
    assert commits.history(str(copy)) == commits.NOTHING
    assert "in a clone of the repository" in origin.unknown(report, commits.history(str(copy)))
