"""A report as a board makes it: engines built, checked and measured over the stand-ins."""

import json
import os
import subprocess
import sys

import pytest

from tests import bundles
from tests.standin import libraries
from tests.standin.conftest import FOLDER, RELEASE

TYPED = RELEASE.startswith("11.")  # takes no FP16 flag
SHORT = ["--rounds", "2", "--new-tokens", "6", "--prompt-tokens", "4", "--rows", "8"]


def reported(path, folder, wrong=""):
    """(status, stderr, report) of the verb in a process of its own."""
    variables = {libraries.COMPUTE: path, libraries.WRONG: wrong}
    env = libraries.environment(RELEASE, FOLDER, **variables)
    command = [sys.executable, "-m", "edgeformer", "bench", "--board-report", path, *SHORT]
    done = subprocess.run(
        command + ["-o", str(folder)],
        cwd=libraries.ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=170,
    )
    err = done.stderr.decode("utf-8")
    assert "Traceback" not in err, err
    with open(os.path.join(str(folder), "report.json")) as file:
        return done.returncode, err, json.load(file)


def test_engines_are_built_checked_and_measured_and_nothing_is_done_twice(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    status, err, report = reported(path, tmp_path / "report")
    assert status == 0, err
    (bundle,) = report["bundles"]
    assert report["gpu"]["name"] == "Stand-in GPU"
    assert report["is_board"] is False
    assert report["complete"] is True
    assert "would be refused: " in err
    assert "none of our boards" in err
    layouts = [(e["precision"], e["layout"], e["key"] is not None) for e in bundle["engines"]]
    built = [("fp32", "split", True), ("fp32", "shared", True)]
    assert layouts == [("fp16", "split", not TYPED), ("fp16", "shared", not TYPED), *built]
    if TYPED:
        assert "has no FP16 flag" in bundle["engines"][0]["error"]
    names = ["ort"] + ["%s-%s" % one[:2] for one in layouts if one[2]]
    assert [(c["run"], c["passed"]) for c in bundle["checks"]] == [(n, True) for n in names]
    assert bundle["numerics"] == []
    cases = bundle["bench"]["cases"]
    assert [case["name"] for case in cases] == ["tiny-rope " + name for name in names]
    assert [case["precision"] for case in cases[1:]] == [name[:4] for name in names[1:]]
    assert all(case["parity"]["passed"] and len(case["rounds"]) == 2 for case in cases)
    keys = {engine["key"] for engine in bundle["engines"] if engine["key"]}
    for check in bundle["checks"][1:]:
        assert any(key in check["reason"] for key in keys)

    again, err, same = reported(path, tmp_path / "report")
    assert again == 0
    assert "begun" not in err
    assert dict(same, made="") == dict(report, made="")


@pytest.mark.skipif(RELEASE != libraries.AS_821 and not TYPED, reason="oldest and newest do")
@pytest.mark.parametrize("wrong", ["1.value"])
def test_a_wrong_engine_is_found_and_the_layer_is_named(wrong, tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    status, err, report = reported(path, tmp_path / "report", wrong="new." + wrong)
    assert status == 1, err
    (bundle,) = report["bundles"]
    verdicts = {check["run"]: check["passed"] for check in bundle["checks"]}
    assert verdicts.pop("ort") is True
    assert set(verdicts.values()) == {False}
    assert {one["run"] for one in bundle["numerics"]} == set(verdicts)
    for one in bundle["numerics"]:
        assert one["first_off"] == wrong, one
        assert "values of layer 1 are the first" in one["what"]
        errors = {layer["name"]: layer["error"] for layer in one["layers"]}
        assert errors[wrong] > one["limit"] > errors["1.key"]
    # the CPU's engine is right, and no engine's speed is compared with it
    assert {c["verdict"] for c in bundle["bench"]["comparisons"]} == {"not compared"}
