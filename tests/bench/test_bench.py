"""`bench` as a child process: what it measures, where it tells it, and what it survives."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from edgeformer.bench import document as documents
from edgeformer.bench import turn as turns
from edgeformer.bench.cases import Asked, cases_of, settings_of
from edgeformer.bench.rounds import take_rounds
from edgeformer.bundle import Bundle
from edgeformer.device.monitor import Monitor
from tests import bundles
from tests.test_cli import ROOT, environment

SHORT = ["--rounds", "2", "--new-tokens", "8", "--threads", "1", "--prompt-tokens", "5,20"]


def bench(*arguments, **options):
    """(status, stdout, stderr)"""
    child = subprocess.run(
        [sys.executable, "-m", "edgeformer", "bench", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=environment(),
        timeout=120,
        **options,
    )
    return child.returncode, child.stdout, child.stderr


def test_a_run_tells_one_document_that_is_what_the_schema_says(tmp_path):
    """The same on Python 3.6 with onnxruntime 1.10 and on this one."""
    path = str(tmp_path / "bench.json")
    status, out, err = bench(bundles.ROPE, bundles.INT8, *SHORT, "--json", "-o", path)
    assert status == 0, err
    found = json.loads(out.splitlines()[-1])
    documents.check(found)
    assert documents.read(path) == found
    assert err.count("round ") == 4
    machine, (rope, int8) = found["machine"], found["cases"]
    assert machine["packages"]["onnxruntime"] and machine["packages"]["tensorrt"] is None
    assert rope["parity"] == {"passed": True, "what": "64 of 64 golden tokens"}
    assert int8["parity"]["passed"] is True and int8["precision"] == "int8-dynamic"
    # A B, B A: each round in a process of its own
    assert [turn["order"] for turn in rope["rounds"]] == [0, 3]
    assert [turn["order"] for turn in int8["rounds"]] == [1, 2]
    turn = rope["rounds"][0]
    assert len(turn["token_s"]) == len(turn["outside_s"]) == 7
    assert set(turn["first_token_s"]) == {"5", "20"} and set(turn["rows_s"]) == {"64"}
    assert 0 < turn["load_s"] < found["seconds"]
    assert 1e7 < turn["loaded_rss_bytes"] <= turn["peak_rss_bytes"] < 1e9
    assert all(0 <= o < t for o, t in zip(turn["outside_s"], turn["token_s"]))
    assert machine["bandwidth_bytes_per_s"]["threads"] == 1
    assert 0 < rope["summary"]["roofline_share"] < 2
    assert {sample["case"] for sample in found["samples"]} >= {rope["name"], int8["name"]}
    for case in (rope, int8):
        own = [sample for sample in found["samples"] if sample["case"] == case["name"]]
        seen = [sample["rss_bytes"] for sample in own if sample["rss_bytes"] is not None]
        peak = max(turn["peak_rss_bytes"] for turn in case["rounds"])
        assert seen and 0.2 * peak < max(seen) < 1.3 * peak  # it answers after it looked
        for turn in case["rounds"]:  # null on most virtual machines
            assert {"cpu_hz", "gpu_hz", "emc_hz"} <= set(turn)
    assert [c["why"] for c in found["comparisons"]][:1] == [
        "2 rounds of both; an interval of 99.8% needs 10"
    ]


@pytest.mark.slow
def test_side_by_side_gives_the_same_document_from_blocks(tmp_path):
    path = str(tmp_path / "bench.json")
    short = [*SHORT, "--side-by-side", "--rounds", "11", "-o", path]
    status, out, err = bench(bundles.ROPE, bundles.ROPE, *short)
    assert status == 0, err
    found = documents.read(path)
    cut = found["settings"]["side_by_side"]
    assert cut["blocks"] == 16
    kept = cut["block_tokens"] - cut["dropped_tokens"]
    assert kept >= 8 and cut["dropped_tokens"] == -(-kept // 2)
    for case in found["cases"]:
        assert case["parity"]["passed"] is True and len(case["rounds"]) == 11
        for turn in case["rounds"]:
            assert len(turn["token_s"]) == len(turn["outside_s"]) == 16 * kept
            assert all(0 <= o < t for o, t in zip(turn["outside_s"], turn["token_s"]))
            assert turn["power_w"] is None and 1e7 < turn["peak_rss_bytes"] < 1e9
    assert [turn["order"] for turn in found["cases"][0]["rounds"]][:4] == [0, 3, 4, 7]
    assert found["comparisons"][0]["confidence"] > 0.998
    assert "each of a (side by side): a = tiny-rope fp32 ort #1" in out
    assert f"the first {cut['dropped_tokens']} of each block of {cut['block_tokens']}" in out


def test_without_json_there_is_a_table():
    status, out, err = bench(bundles.LEARNED, "--rounds", "1", "--threads", "1")
    assert status == 0, err
    assert "tiny-learned fp32 ort" in out and "tokens/s" in out and "a token, median" in out


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["no-such-folder"], "is not a directory"),
        ([ROOT], "has no manifest.json, so it is no bundle"),
        ([bundles.ROPE, "--prompt-tokens", "101"], "--prompt-tokens has 101"),
        ([bundles.ROPE, "--prompt-tokens", "5,x"], "--prompt-tokens is '5,x'"),
        ([bundles.ROPE, "--rows", "\u00b2"], "say numbers such as 16,64"),
        ([bundles.ROPE, "--prompt-tokens", "99"], "leaves 2 of tiny-rope"),
        ([bundles.LEARNED, "--new-tokens", "64"], "room for 2 to 17 (capacity 32)"),
        ([bundles.ROPE, "--threads", "0"], "--threads is 0"),
        ([bundles.ROPE, "-o", "/proc/bench.json"], "cannot be written"),
        ([bundles.ROPE, "-o", "/dev/full"], "is no regular file"),
        ([bundles.ROPE, "--backend", "trt"], "holds no TensorRT engine"),
        ([bundles.ROPE, "--side-by-side"], "--side-by-side compares, and here is one case"),
        ([bundles.ROPE, "--side-by-side", "--board-report"], "leave out --side-by-side"),
        ([bundles.ROPE, "--side-by-side", "--profile"], "--profile compares nothing"),
    ],
)
def test_a_mistake_is_told_before_anything_is_measured(arguments, told):
    status, out, err = bench(*arguments)
    assert (status, out) == (2, "")
    assert told in err and "Traceback" not in err
    assert "ms a token" not in err


def test_other_tokens_than_the_golden_ones_are_status_1_and_no_ratio(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)

    def change(data):
        data["golden"]["greedy_ids"][5] = (data["golden"]["greedy_ids"][5] + 1) % 200

    bundles.edited(path, change)
    status, out, err = bench(bundles.ROPE, path, *SHORT, "--json")
    found = json.loads(out)
    assert status == 1, err
    assert found["complete"] is True
    assert found["cases"][1]["parity"]["passed"] is False
    assert found["comparisons"][0]["verdict"] == "not compared"
    assert "parity of" in found["comparisons"][0]["why"]


def test_ctrl_c_keeps_the_rounds_that_are_whole(tmp_path):
    path = str(tmp_path / "bench.json")
    child = subprocess.Popen(
        [sys.executable, "-m", "edgeformer", "bench", bundles.ROPE, *SHORT, "--rounds", "500"]
        + ["-o", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=environment(),
        start_new_session=True,
    )
    lines = []
    while not any("round 2 of 500" in line for line in lines):
        lines.append(child.stderr.readline())
        assert lines[-1], lines
    time.sleep(0.1)  # into the third round
    os.killpg(child.pid, signal.SIGINT)  # a terminal's Ctrl-C reaches all of them
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "interrupted: the rounds that are whole are kept" in err and "Traceback" not in err
    assert "NOT COMPLETE" in out
    found = documents.read(path)
    assert found["complete"] is False
    assert 2 <= len(found["cases"][0]["rounds"]) < 500


DIES = """
import os, sys
sys.path.append({!r})
before = len(os.listdir({marks!r}))
open(os.path.join({marks!r}, str(before)), "w").close()
if before == {whole}:
    print("the last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), 9)
from edgeformer.bench import worker
worker.main({})
"""


@pytest.mark.parametrize("whole", [0, 2])
def test_a_child_that_dies_is_a_finding_of_its_case_and_the_others_go_on(
    whole, tmp_path, monkeypatch
):
    marks = tmp_path / "marks"
    marks.mkdir()
    script = DIES.replace("{marks!r}", repr(str(marks))).replace("{whole}", str(whole))
    monkeypatch.setattr(turns, "_START", script)
    opened = [Bundle.open(bundles.ROPE), Bundle.open(bundles.LEARNED)]
    cases = cases_of(opened, ["ort"], 1)
    said = []
    settings = settings_of(Asked(rounds=3, new_tokens=4), cases)
    with Monitor() as monitor:
        taken = take_rounds(cases, settings, monitor, said.append)
    dead, alive = taken.cases if whole == 0 else reversed(taken.cases)
    assert "was ended by SIGKILL (9)" in dead.error and "the last words" in dead.error
    assert not dead.refused and len(dead.rounds) == (0 if whole == 0 else 1)
    assert alive.error is None and len(alive.rounds) == 3
    assert any("given up" in line for line in said)


def test_a_reader_that_has_gone_costs_no_file(tmp_path):
    path = str(tmp_path / "kept.json")
    with open(os.devnull, "w") as nowhere:
        child = subprocess.Popen(
            [sys.executable, "-m", "edgeformer", "bench", bundles.LEARNED, "--rounds", "1"]
            + ["--threads", "1", "-o", path],
            stdout=subprocess.PIPE,
            stderr=nowhere,
            env=environment(),
        )
        child.stdout.close()
        assert child.wait(timeout=60) == 0
    documents.check(documents.read(path))


def test_weights_that_are_not_the_exporters_are_not_measured(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    weights = bytearray(bundles.content_of(path, "weights.bin"))
    weights[-1] ^= 1
    with open(os.path.join(path, "weights.bin"), "wb") as file:
        file.write(weights)
    status, _, err = bench(path, *SHORT)
    assert status == 2 and "weights.bin has sha256" in err and "ms a token" not in err


def test_a_full_disk_at_the_end_costs_the_file_and_not_the_figures(tmp_path):
    """The folder can be written when the run begins, and is gone when it ends."""
    folder = tmp_path / "gone"
    folder.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "edgeformer", "bench", bundles.LEARNED, "--rounds", "1"]
        + ["--threads", "1", "-o", str(folder / "x.json")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env=environment(),
    )
    while "cases: 1" not in child.stderr.readline():
        pass
    folder.rmdir()
    out, err = child.communicate(timeout=60)
    assert child.returncode == 2
    assert "x.json' cannot be written" in err and "Traceback" not in err
    documents.check(json.loads(out.splitlines()[-1]))
