"""The report of a machine that is no board: the whole command, killed at each of its parts too."""

import json
import os
import signal
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from edgeformer.__main__ import main
from edgeformer.bench.board import document, page, work
from edgeformer.device import board
from edgeformer.errors import EdgeformerError
from tests import bundles
from tests.device import boards
from tests.py36_grammar import ROOT

SHORT = ["--rounds", "2", "--new-tokens", "6", "--prompt-tokens", "4", "--rows", "8"]
PARTS = ["environment"] + [
    "%s-%s" % (n, part) for n in ("01", "02") for part in ("files", "check.ort", "bench")
]
# The verb, which dies as in a power cut at its n-th write into the folder.
DYING = """
import os, signal, sys
from edgeformer.bench.board import parts
write, count, at = parts.write_bytes, [0], int(sys.argv.pop(1))
def dying(path, content):
    count[0] += 1
    if count[0] == at:
        os.kill(os.getpid(), signal.SIGKILL)
    write(path, content)
parts.write_bytes = dying
from edgeformer.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
# What no two runs have in common.
CHANGES = {"made", "seconds", "command", "load_average", "samples"}
CHANGES |= {"verdict", "ratio", "low", "high", "why", "throttled"}


def verb(folder, *paths, **options):
    """(status, stderr lines) of the command in a process of its own."""
    words = ["bench", "--board-report", *paths, *SHORT, "-o", str(folder)]
    child = subprocess.run(
        [sys.executable, "-c", DYING, str(options.get("at", 0)), *words],
        cwd=ROOT,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    assert child.stdout == b""
    return child.returncode, child.stderr.decode("utf-8").splitlines()


def read(folder):
    with open(os.path.join(str(folder), "report.json")) as file:
        return json.load(file)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(folder, report) of two bundles, in one go."""
    folder = tmp_path_factory.mktemp("whole")
    status, lines = verb(folder, bundles.ROPE, bundles.LEARNED)
    assert status == 0, lines
    assert [line[: -len(": begun")] for line in lines if line.endswith(": begun")] == PARTS
    return str(folder), read(folder)


def test_a_pc_reports_what_it_has_and_that_it_is_no_board(finished):
    folder, report = finished
    assert report["is_board"] is False
    assert report["complete"] is True
    assert report["gpu"] is None
    assert "engines cannot be built on this machine" in report["gpu_error"]
    names = [bundle["model"]["name"] for bundle in report["bundles"]]
    assert names == ["tiny-rope", "tiny-learned"]
    for bundle in report["bundles"]:
        assert bundle["engines"] == []
        assert [check["passed"] for check in bundle["checks"]] == [True]
        assert bundle["bench"]["cases"][0]["model"]["sha256"] == bundle["model"]["sha256"]
    assert document.read(os.path.join(folder, "report.json")) == report


def test_nobodys_folders_are_in_the_report(finished):
    _, report = finished
    assert os.path.dirname(bundles.ROPE) not in json.dumps(report)
    assert "tiny-rope" in report["command"]


@pytest.mark.slow
def test_killed_at_each_of_its_parts_it_ends_with_the_same_report(tmp_path, finished):
    # Each run ends one part and is killed at the end of the next, which it must do again.
    runs = []
    for _ in range(2 * len(PARTS)):
        status, lines = verb(tmp_path, bundles.ROPE, bundles.LEARNED, at=4 if runs else 5)
        runs.append(lines)
        if status == 0:
            break
        assert status == -signal.SIGKILL
    begun = [line for lines in runs for line in lines if ": begun" in line]
    assert begun[0] == "environment: begun"
    for name in PARTS[1:]:
        assert [line for line in begun if line.startswith(name)] == [
            name + ": begun",
            name + ": begun, for the 2. time",
        ]
    done = [line.split(":")[0] for lines in runs for line in lines if ": done" in line]
    assert done == PARTS
    assert stripped(read(tmp_path)) == stripped(finished[1])
    assert not [name for name in os.listdir(str(tmp_path / "parts")) if name.endswith(".begun")]


def stripped(value):
    """Without what no two runs have in common."""
    if isinstance(value, dict):
        return {key: stripped(item) for key, item in value.items() if key not in CHANGES}
    if isinstance(value, list):
        return [stripped(item) for item in value]
    return "number" if isinstance(value, (int, float)) else value


def test_the_page_is_whole_needs_nothing_and_says_that_it_is_no_board(finished):
    folder, report = finished
    with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
        html = file.read()
    balance = Balance()
    balance.feed(html)
    assert balance.open == []
    assert "//" not in html
    assert "This is no board" in html
    for bundle in report["bundles"]:
        speed = bundle["bench"]["cases"][0]["summary"]["tokens_per_s"]["median"]
        assert "%.4g (" % speed in html
    assert len(html) < 100000


class Balance(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def error(self, message):
        raise AssertionError(message)

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_text_of_a_stranger_is_text_on_the_page(finished):
    report = json.loads(json.dumps(finished[1]))
    report["machine"]["processor"] = "<script>alert(1)</script>"
    report["bundles"][0]["bench_error"] = "<b>"
    html = page.html_of(report)
    assert "<script>" not in html
    assert "&lt;b&gt;" in html


def test_a_damaged_bundle_is_a_finding_and_the_others_are_measured(tmp_path):
    path = bundles.copied(bundles.LEARNED, tmp_path)
    with open(os.path.join(path, "weights.bin"), "r+b") as file:
        file.seek(100)
        file.write(b"\xff\xff\xff\xff")
    status, lines = verb(tmp_path / "report", path, bundles.ROPE)
    assert status == 1, lines
    report = read(tmp_path / "report")
    assert report["complete"] is False
    assert "weights.bin" in report["bundles"][0]["files"]["error"]
    assert report["bundles"][0]["checks"] == []
    assert report["bundles"][1]["bench"]["complete"] is True


def test_a_machine_is_a_board_only_where_its_kernel_says_so(tmp_path):
    nano = dict(board.read_board(boards.nano(tmp_path))._asdict())
    assert work.is_board({"board": nano})
    assert not work.is_board({"board": dict(nano, target=None)})
    assert not work.is_board({"board": None})


@pytest.mark.parametrize(
    "words, match",
    [
        (["--backend", "ort", "-o", "x"], "leave out --backend"),
        ([], "give a folder: -o FOLDER"),
        ([bundles.ROPE, "-o", "x"], "named twice"),
    ],
)
def test_what_does_not_go_together_is_refused(words, match, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(str(tmp_path))
    assert main(["bench", "--board-report", bundles.ROPE, *words]) == 2
    assert match in capsys.readouterr().err
    assert os.listdir(str(tmp_path)) == []


def test_a_report_with_another_key_or_type_is_refused(finished, tmp_path):
    def refused(change):
        report = json.loads(json.dumps(finished[1]))
        change(report)
        path = tmp_path / "edited.json"
        path.write_text(json.dumps(report))
        with pytest.raises(EdgeformerError) as error:
            document.read(str(path))
        return str(error.value)

    assert "has the unknown key 'more'" in refused(lambda r: r.update(more=1))
    assert "complete" in refused(lambda r: r.update(complete="yes"))
    assert "machine: cpus" in refused(lambda r: r["machine"].update(cpus=0))
    assert "cases[0].rounds[0].load_s" in refused(
        lambda r: r["bundles"][1]["bench"]["cases"][0]["rounds"][0].update(load_s=-1)
    )
