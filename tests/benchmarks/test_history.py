"""--history points out what is beyond noise, and nothing else. The noise of these is known."""

import json
import math
import os
import random

import compare
import pytest
from report import history

from tests.bench.documents import settled
from tests.benchmarks.samples import board_document, rounds, save

BAND = 10e9


def points(medians, spread=0.01, bandwidth=None):
    return [
        history.Point(
            "%08x" % i, "made", m, m * (1 - spread), m * (1 + spread), bandwidth and bandwidth[i]
        )
        for i, m in enumerate(medians)
    ]


def noisy(runs, sigma, seed, step=0.01):
    chance = random.Random(seed)
    return [step * math.exp(chance.gauss(0, sigma)) for _ in range(runs)]


def words(medians, **more):
    return [verdict.word for verdict in history.judged(points(medians, **more))]


@pytest.mark.parametrize("sigma", [0.005, 0.02, 0.1])
def test_noise_alone_is_hardly_ever_a_change(sigma):
    told = [words(noisy(12, sigma, seed), spread=2 * sigma) for seed in range(200)]
    assert all(one[0] == "first" for one in told)
    # one-sided 1 in 2000 twice, where the spread is taken from the runs before
    alarms = sum(word != "same" for one in told for word in one[1:])
    assert alarms <= 0.01 * 200 * 11


@pytest.mark.parametrize("sigma, slower", [(0.005, 1.06), (0.01, 1.12), (0.02, 1.25)])
def test_a_slowdown_beyond_noise_is_found_and_so_is_its_commit(sigma, slower):
    for seed in range(100):
        medians = noisy(12, sigma, seed)
        made = words([*medians[:11], slower * medians[11]], spread=2 * sigma)
        assert made[11] == "worse", seed


def test_a_slowdown_within_noise_is_none():
    found = [words([*noisy(11, 0.1, seed), 0.0105], spread=0.2).pop() for seed in range(100)]
    assert found.count("same") >= 99


def test_a_change_is_told_once_and_then_is_the_new_baseline():
    assert words([1, 1, 1, 1, 1.5, 1.5, 1.5, 1.5, 1.5]) == [
        *["first", "same", "same", "same"],
        *["worse", "same", "same", "same", "same"],
    ]


def test_two_runs_are_judged_by_the_ranges_of_their_rounds():
    assert words([1, 1.2], spread=0.05) == ["first", "worse"]
    assert words([1, 1.08], spread=0.05) == ["first", "same"]
    assert words([1, 1.09], spread=0.001) == ["first", "same"]


def test_where_more_is_better_less_is_worse():
    found = [verdict.word for verdict in history.judged(points([100, 50, 100]), less=False)]
    assert found == ["first", "worse", "better"]


def test_what_the_machine_itself_explains_is_not_judged():
    slower = [BAND] * 5 + [BAND / 2]
    assert words([1, 1, 1, 1, 1, 1.9], bandwidth=slower)[-1] == "not judged"
    assert words([1, 1, 1, 1, 1, 3.0], bandwidth=slower)[-1] == "worse"
    faster = [BAND] * 5 + [BAND * 2]
    assert words([1, 1, 1, 1, 1, 1.9], bandwidth=faster)[-1] == "worse"
    assert words([1, 1, 1, 1, 1, 0.6], bandwidth=faster)[-1] == "not judged"


def results(folder, *steps, **changes):
    """A folder of runs, a day apart, whose first case takes these seconds a token."""
    paths = []
    for day, step in enumerate(steps):
        made = board_document()
        made.update(made="2026-11-%02dT15:00:00Z" % (day + 1), commit="%040x" % (day + 1))
        for case, token in zip(made["cases"], (step, 0.01, 0.01)):
            case["rounds"] = rounds(token, spread=1.01)
        made["machine"].update(changes)
        paths.append(save(folder, "%d.json" % day, settled(made)))
    return paths


def told(capsys, *arguments):
    status = compare.main(["--history", *arguments])
    return status, capsys.readouterr()


def test_the_newest_regression_fails_only_where_that_was_asked_for(tmp_path, capsys):
    results(tmp_path, 0.01, 0.01, 0.02)
    status, out = told(capsys, "--results", str(tmp_path))
    assert status == 0
    line = next(line for line in out.out.splitlines() if "REGRESSION" in line)
    assert "tiny fp32 ort" in line and "at 00000000" in line and "from 10.0 ms to 20.0 ms" in line
    assert "100.0 % worse" in line and "2026-11-03" in line
    assert told(capsys, "--results", str(tmp_path), "--fail-on-regression")[0] == 1


def test_an_old_regression_is_told_and_does_not_fail_for_ever(tmp_path, capsys):
    results(tmp_path, 0.01, 0.02, 0.02)
    status, out = told(capsys, "--results", str(tmp_path), "--fail-on-regression")
    assert status == 0 and "REGRESSION" in out.out


def test_order_is_that_of_the_runs_and_not_of_the_file_names(tmp_path, capsys):
    paths = results(tmp_path, 0.01, 0.01, 0.02)
    status, _ = told(capsys, "token_s", "--fail-on-regression", *reversed(paths))
    assert status == 1


def test_histories_of_two_machines_are_two(tmp_path, capsys):
    here, there = tmp_path / "a", tmp_path / "b"
    here.mkdir(), there.mkdir()
    results(here, 0.01, 0.01)
    results(there, 0.05, 0.05, processor="another CPU")
    status, out = told(capsys, "--results", str(tmp_path), "--fail-on-regression")
    assert status == 0 and out.out.count("## ") == 2 and "REGRESSION" not in out.out


def test_blocks_side_by_side_and_whole_rounds_have_a_history_each(tmp_path, capsys):
    paths = results(tmp_path, 0.01, 0.01, 0.02, 0.02)
    for path in paths[2:]:
        with open(path) as file:
            made = json.load(file)
        cut = {"blocks": 3, "block_tokens": 2, "dropped_tokens": 1}
        made["settings"]["side_by_side"] = cut
        save(tmp_path, os.path.basename(path), made)
    status, out = told(capsys, "--fail-on-regression", *paths)
    assert status == 0 and "REGRESSION" not in out.out


def test_wrong_results_are_no_history(tmp_path, capsys):
    made = board_document()
    made["cases"][0]["parity"]["passed"] = False
    made["cases"][1]["error"] = "killed"
    made["complete"] = False
    save(tmp_path, "a.json", settled(made))
    _, out = told(capsys, "--results", str(tmp_path))
    assert "tiny fp16 trt" in out.out
    assert "tiny fp32 ort" not in out.out and "tiny fp32 trt" not in out.out


def test_figures_with_a_part_have_a_history_and_unknown_ones_an_error(tmp_path, capsys):
    paths = results(tmp_path, 0.01, 0.01)
    _, out = told(capsys, "rows_s/64", *paths)
    assert "rows in use, 64" in out.out
    status, out = told(capsys, "speed", *paths)
    assert status == 2 and "no figure 'speed'; known: token_s" in out.err
    status, out = told(capsys, "rows_s/65", *paths)
    assert status == 2 and "rows_s/65" in out.err


def test_a_folder_without_results_is_an_error(tmp_path, capsys):
    status, out = told(capsys, "--results", str(tmp_path))
    assert status == 2 and "no result file" in out.err


def test_other_files_among_the_results_are_left_out_and_named(tmp_path, capsys):
    results(tmp_path, 0.01, 0.02)
    (tmp_path / "report.json").write_text('{"format": 9}')
    status, out = told(capsys, "--results", str(tmp_path), "--fail-on-regression")
    assert status == 1 and "REGRESSION" in out.out
    assert "report.json is left out" in out.err and "has format 9" in out.err
    assert told(capsys, "token_s", str(tmp_path / "report.json"))[0] == 2
