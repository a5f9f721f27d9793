"""Reports into benchmarks/results/boards, and README's table from nothing else."""

import copy
import json
import os

import pytest

from benchmarks import accept
from edgeformer.bench import commits
from edgeformer.bench.board import judge
from edgeformer.errors import EdgeformerError
from tests.bench.board.made import nano_report


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return nano_report(tmp_path_factory.mktemp("nano"))


def written(report, folder, name="report.json"):
    path = folder / name
    path.write_text(json.dumps(report))
    return str(path)


def run(path, folder):
    return accept.main([path, "--results", str(folder / "boards")])


def test_readmes_table_is_that_of_the_accepted_reports():
    with open(accept.README, encoding="utf-8") as file:
        text = file.read()
    assert accept.with_table(text) == text, "run: python -m benchmarks.accept --readme"


def test_an_accepted_report_is_kept_once_and_stands_in_the_table(whole, tmp_path, capsys):
    assert run(written(whole, tmp_path), tmp_path) == 0
    assert run(written(whole, tmp_path), tmp_path) == 0
    (name,) = os.listdir(str(tmp_path / "boards"))
    assert name.startswith("jetson-nano-32.7.1-")
    assert capsys.readouterr().out.splitlines()[1].startswith("known: ")
    text = accept.with_table(
        "a\n%s\nold\n%s\nz\n" % (accept.BEGIN, accept.END), tmp_path / "boards"
    )
    assert text.startswith("a\n") and text.endswith(accept.END + "\nz\n")
    rows = [line for line in text.splitlines() if "tiny-learned" in line]
    assert len(rows) == 2
    for row, case in zip(rows, whole["bundles"][0]["bench"]["cases"]):
        assert "NVIDIA Jetson Nano Developer Kit" in row
        assert "4.6.1, MAXN, locked" in row
        assert "%.3g" % case["summary"]["tokens_per_s"]["median"] in row
        assert "1024 MiB" in row
        assert name in row
    assert "old" not in text


def test_without_reports_the_table_says_that_there_are_none(tmp_path):
    text = accept.with_table(accept.BEGIN + accept.END, tmp_path)
    assert "No board has reported yet" in text


def test_a_refused_report_leaves_nothing_and_every_reason_is_told(whole, tmp_path, capsys):
    report = json.loads(json.dumps(whole))
    report["complete"] = False
    report["bundles"][0]["bench"]["cases"][0]["summary"]["tokens_per_s"]["median"] *= 2
    assert run(written(report, tmp_path), tmp_path) == 1
    out = capsys.readouterr().out
    assert "refused: " in out
    assert "- it is not complete" in out
    assert "'tiny-learned ort': tokens_per_s.median is " in out and "and its rounds give" in out
    assert not os.path.exists(str(tmp_path / "boards"))


def test_a_commit_that_nobody_knows_is_refused_or_said_to_be_unknown(whole, tmp_path, capsys):
    report = json.loads(json.dumps(whole))
    report["commit"] = report["bundles"][0]["bench"]["commit"] = "c" * 40
    is_whole = commits.history().whole  # a copy without its history cannot refuse it
    assert run(written(report, tmp_path), tmp_path) == int(is_whole)
    told = "its commit %s is unknown" if is_whole else "not looked up: commit %s"
    assert told % ("c" * 40) in capsys.readouterr().out
    assert os.path.exists(str(tmp_path / "boards")) == (not is_whole)


def test_a_report_from_a_board_whose_clock_was_wrong_is_refused(whole, tmp_path, capsys):
    report = json.loads(json.dumps(whole))
    report["made"] = report["bundles"][0]["bench"]["made"] = "2999-01-01T00:00:00Z"
    assert run(written(report, tmp_path), tmp_path) == 1
    assert "made in the future: 2999-01-01T00:00:00Z, and now it is " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"format": 1, "format": 1}', '{"a": NaN}'])
def test_what_is_no_report_is_an_error_and_no_traceback(text, tmp_path, capsys):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert run(str(path), tmp_path) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_an_accepted_file_that_was_touched_later_stops_the_table(whole, tmp_path):
    assert run(written(whole, tmp_path), tmp_path) == 0
    folder = tmp_path / "boards"
    (name,) = os.listdir(str(folder))
    report = json.loads((folder / name).read_text())
    report["bundles"][0]["bench"]["cases"][0]["rounds"][0]["token_s"][0] *= 3
    (folder / name).write_text(json.dumps(report))
    with pytest.raises(EdgeformerError, match="is no accepted report"):
        accept.accepted(str(folder))


def test_a_strangers_text_cannot_break_the_table(whole, tmp_path):
    report = json.loads(json.dumps(whole))
    for machine in (report["machine"], report["bundles"][0]["bench"]["machine"]):
        machine["board"]["model"] = "Nano | [x](http://evil) <img src=x>\n| a |"
    rows = accept.table([("jetson-nano-32.7.1-0123456789ab.json", report)]).splitlines()
    assert len(rows) == 4
    for row in rows[2:]:
        assert row.replace("\\|", "").count("|") == rows[0].count("|")
        assert "\\](http" in row
        assert "\\<img" in row


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[click](http://e/x.json)", "\\[click\\](http:\\/\\/e/x.json)"),
        ("a\x00b\nc", "a b c"),
        ("<b>|`", "\\<b\\>\\|\\`"),
    ],
)
def test_a_strangers_name_is_plain_text_in_the_readme(text, shown):
    assert accept._cell(text) == shown


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        (["model", "capacity"], None, "tells no capacity"),
        (["rounds", 0, "token_s"], [], "something took no time"),
        (["rounds", 0, "first_token_s"], {"abc": [1.0]}, "lengths that are no numbers"),
        (["rounds", 0, "rows_s"], {"\u00b2": [1.0]}, "lengths that are no numbers"),
    ],
)
def test_what_no_bench_writes_is_told_and_no_traceback(where, value, told, whole):
    report = copy.deepcopy(whole)
    bundle = next(one for one in report["bundles"] if one["bench"])
    spot = bundle["bench"]["cases"][0]
    for key in where[:-1]:
        spot = spot[key]
    spot[where[-1]] = value
    assert told in "\n".join(judge._bench(bundle["bench"]))
