"""The process that checks a bundle, and what becomes of it."""

import os

from edgeformer.bench.board import child
from tests import bundles

JOB = {"do": "check", "path": bundles.ROPE, "backend": "ort", "engines": None}


def test_a_right_bundle_passes_with_figures():
    found = child.ask(JOB)
    assert found["passed"] is True
    assert "64 of 64 likeliest tokens" in found["what"]
    assert found["precision"] == "fp32"


def test_a_bundle_that_computes_something_else_fails(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)

    def change(data):
        ids = data["golden"]["greedy_ids"]
        ids[3] = (ids[3] + 1) % 280

    bundles.edited(path, change)
    found = child.ask(dict(JOB, path=path))
    assert found["passed"] is False
    assert "64 of 64" not in found["what"]


def test_an_error_and_a_death_are_findings(tmp_path):
    found = child.ask(dict(JOB, path=str(tmp_path)))
    assert "manifest.json" in found["error"]
    assert "status 1" in child.ask(dict(JOB, do="nothing"))["error"]
    assert "no TensorRT engine" in child.ask(dict(JOB, do="numerics"))["error"]


def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(child, "TIMEOUT", 0.01)
    assert child.ask(JOB) == {"error": "the process did not end within 0.01 s"}
    names = [os.path.join("/proc", n, "cmdline") for n in os.listdir("/proc") if n.isdigit()]
    mine = "child.main(%d)" % os.getpid()
    assert not [name for name in names if mine in text_of(name)]


def text_of(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
