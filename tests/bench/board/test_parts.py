"""Parts of a report: whole or not there, done once, whatever ends the program between."""

import json
import os
import signal
import subprocess
import sys

import pytest

from edgeformer.bench.board import parts as module
from edgeformer.bench.board.parts import Parts, only_report
from edgeformer.errors import EdgeformerError
from tests.py36_grammar import ROOT

OF = {"bundles": ["a"], "rounds": 10}


def opened(folder, of=OF):
    said = []
    return Parts(str(folder), of, said.append), said


def ended():
    raise SystemExit


def interrupted():
    raise KeyboardInterrupt


def test_a_part_is_done_once_and_read_from_then_on(tmp_path):
    done, told = [], []
    for _ in range(3):
        parts, said = opened(tmp_path)
        value = parts.take("one", lambda: done.append(1) or {"answer": 42})["value"]
        assert value == {"answer": 42}
        told.append(said)
    assert done == [1]
    assert told[1:] == [[], []]


def test_parts_of_another_report_are_refused_with_what_differs(tmp_path):
    opened(tmp_path)
    with pytest.raises(EdgeformerError, match="another report: other rounds; give another folder"):
        opened(tmp_path, dict(OF, rounds=3))
    opened(tmp_path)


def test_a_part_that_ends_the_machine_each_time_is_given_up_and_told(tmp_path):
    for _ in range(module.TRIES):
        parts, said = opened(tmp_path)
        with pytest.raises(SystemExit):
            parts.take("one", ended)
    assert said == ["one: begun, for the 3. time"]
    found = opened(tmp_path)[0].take("one", lambda: {"answer": 42})
    text = "the program or the machine ended 3 times while this was done"
    assert found["value"] == {"error": text}


def test_ctrl_c_is_no_fault_of_the_part(tmp_path):
    for _ in range(2 * module.TRIES):
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path)[0].take("one", interrupted)
    assert opened(tmp_path)[0].take("one", lambda: {"answer": 42})["value"] == {"answer": 42}


def test_a_damaged_part_is_an_error_that_names_its_file(tmp_path):
    parts, _ = opened(tmp_path)
    parts.take("one", lambda: {"answer": 42})
    path = os.path.join(str(tmp_path), "parts", "one.json")
    with open(path, "r+") as file:
        file.truncate(10)
    with pytest.raises(EdgeformerError, match=r"one\.json is damaged"):
        opened(tmp_path)[0].take("one", dict)


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    path = str(tmp_path / "x.json")
    module.write_json(path, {"old": True})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EdgeformerError, match="No space left"):
        module.write_json(path, {"new": True})
    with open(path) as file:
        assert json.load(file) == {"old": True}


def test_two_reports_do_not_share_a_folder(tmp_path):
    code = (
        "from edgeformer.bench.board.parts import only_report\n"
        "with only_report(%r): print('both')" % str(tmp_path)
    )
    with only_report(str(tmp_path)):
        child = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    assert child.stdout == b""
    assert b"another process is writing the report" in child.stderr
    with only_report(str(tmp_path)):
        pass


# Three parts; the process kills itself, as a power cut does, before or inside its n-th write.
DYING = """
import os, signal, sys
from edgeformer.bench.board import parts as module
folder, at, inside = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "inside"
replace, count = os.replace, [0]
def dying(source, target):
    count[0] += 1
    if count[0] == at:
        if inside:
            with open(source, "r+b") as file: file.truncate(5)
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = dying
parts = module.Parts(folder, {"n": 3}, lambda line: print(line, flush=True))
values = [parts.take(name, lambda: {"of": name})["value"] for name in ("a", "b", "c")]
print(values)
"""


@pytest.mark.parametrize("inside", ["inside", "before"])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_kill_at_any_write_loses_at_most_the_part_that_ran(at, inside, tmp_path):
    def run(number):
        command = [sys.executable, "-c", DYING, str(tmp_path), str(number), inside]
        child = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
        return child.returncode, child.stdout.decode("ascii").splitlines()

    status, first = run(at)
    assert status == -signal.SIGKILL
    status, second = run(99)
    assert status == 0
    assert second[-1] == "[{'of': 'a'}, {'of': 'b'}, {'of': 'c'}]"
    done = [line for line in first + second if "done in" in line]
    assert [line[0] for line in done] == ["a", "b", "c"]
    begun = [line for line in first + second if ": begun" in line]
    assert 3 <= len(begun) <= 4
