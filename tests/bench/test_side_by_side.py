"""What a round tells its processes, one block after the other, and what happens if one ends."""

import json
import os
from collections import Counter

import pytest

from edgeformer.bench import turn
from edgeformer.bench.cases import Case, Settings
from edgeformer.bench.orders import balanced
from edgeformer.bench.side_by_side import BLOCKS, TRIAL, cut_for, take_side_by_side
from edgeformer.device.monitor import Monitor
from tests.bench import documents

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripted_child.py")
START = "root, parent = {!r}, {}; import runpy, sys; sys.argv[1:] = ARGV; runpy.run_path(PATH)"


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """(what was measured, what was told to whom, what was said)"""

    def take(names, rounds=1, who="", at=0, how=""):
        log = str(tmp_path / "log")
        made = documents.turn(0, 0.001)
        measured = {key: made[key] for key in ("load_s", "token_s", "rows_s")}
        argv = [log, who, str(at), how, json.dumps(measured)]
        start = START.replace("ARGV", repr(argv).replace("{", "{{").replace("}", "}}"))
        monkeypatch.setattr(turn, "_START", start.replace("PATH", repr(SCRIPT)))
        cases = [Case(name, name, "ort", "fp32", 1, 64, {}) for name in names]
        settings = Settings(rounds, 8, (4,), (), 1, side_by_side=True)
        said = []
        with Monitor() as monitor:
            found = take_side_by_side(cases, settings, monitor, said.append)
        with open(log) as file:
            lines = [line.split(None, 1) for line in file.read().splitlines()]
        return found, lines, said

    return take


def blocks(lines):
    return [who for who, what in lines if what.startswith("block")]


def test_all_begin_then_decode_in_turns_then_end_one_after_the_other(taken):
    found, lines, said = taken(["fast", "slow", "other"])
    words = [what.split()[0] for _, what in lines]
    count = 3 * (1 + len(balanced(3, BLOCKS)))
    assert words == ["starts"] * 3 + ["block"] * count + ["ends"] * 3
    assert [who for who, _ in lines[:3]] == [who for who, _ in lines[-3:]]
    turns = blocks(lines)[2:]  # the last of the first ones has no figure, and is what is followed
    follows = Counter(zip(turns, turns[1:]))
    assert len(follows) == 9 and set(follows.values()) == {len(balanced(3, BLOCKS)) // 3}
    assert [case.error for case in found.cases] == [None] * 3
    assert sorted(case.rounds[0]["order"] for case in found.cases) == [0, 1, 2]
    assert len(said) == 3 and not found.interrupted


def test_a_block_is_as_long_as_the_fastest_case_needs_and_a_third_of_it_is_dropped(taken):
    found, lines, _ = taken(["slow", "fast"], rounds=2)
    told = [what for who, what in lines if who == "fast" and what.startswith("block")]
    assert told[0] == "block %d %d" % (TRIAL, TRIAL)  # nothing is known yet, and nothing is kept
    assert set(told[1:17]) == {"block 45 15"}  # 15 ms of 0.5 ms are 30 tokens
    assert told[17] == "block 45 45" and set(told[18:]) == {"block 45 15"}
    assert found.side_by_side == {"blocks": 16, "block_tokens": 45, "dropped_tokens": 15}


@pytest.mark.parametrize(
    "seconds, cut", [(0.0003, (75, 25)), (0.02, (12, 4)), (3.0, (12, 4)), (0.0, (6144, 2048))]
)
def test_a_block_keeps_eight_tokens_or_15_ms_and_has_an_end(seconds, cut):
    assert cut_for(seconds) == cut


def test_each_case_is_the_first_the_second_and_the_last_equally_often(taken):
    _, lines, _ = taken(["fast", "slow", "other"], rounds=6)
    begun = [who for who, what in lines if what.startswith("starts")]
    for place in range(3):
        assert Counter(begun[place::3]) == {"fast": 2, "slow": 2, "other": 2}
    follows = Counter(
        pair for k in range(0, 18, 3) for pair in zip(begun[k:], begun[k + 1 : k + 3])
    )
    assert set(follows.values()) == {2} and len(follows) == 6


@pytest.mark.parametrize("at", [0, 1, 7])
@pytest.mark.parametrize("how", ["dies", "refuses"])
def test_a_case_that_ends_in_a_block_is_a_finding_and_the_others_go_on(taken, at, how):
    found, lines, said = taken(["fast", "slow", "other"], 2, "slow", at, how)
    fast, slow, other = found.cases
    if how == "dies":
        assert slow.error.startswith("round 1: the process was ended by SIGKILL (9)")
        assert ("while decode" if at else "while load") in slow.error
        assert "the last words" in slow.error and not slow.refused
    else:
        assert slow.error == "give it more memory" and slow.refused
    assert slow.rounds == [] and len(fast.rounds) == len(other.rounds) == 2
    assert [r["order"] for case in (fast, other) for r in case.rounds] == [0, 3, 1, 2]
    assert blocks(lines).count("slow") == at
    last = blocks(lines)[-2 * 16 :]  # the second round has two cases
    assert Counter(last) == {"fast": 16, "other": 16}
    assert sum("given up" in line for line in said) == 1


@pytest.mark.parametrize("at", [0, 1, 4])
def test_where_all_have_ended_what_was_measured_is_kept(taken, at):
    found, lines, said = taken(["fast", "slow"], 4, "fast,slow", at, "dies later")
    for case in found.cases:
        assert case.error.startswith("round 2: the process was ended by SIGKILL (9)")
        assert len(case.rounds) == 1
    assert len(said) == 4 and not found.interrupted
    assert found.side_by_side["block_tokens"] == 45
    assert sum(what.startswith("starts") for _, what in lines) == 4


def test_a_child_that_hangs_is_ended_and_one_that_waits_for_its_turn_is_not(taken, monkeypatch):
    monkeypatch.setattr(turn, "SILENCE_S", 1.5)
    found, lines, _ = taken(["fast", "slow"], 1, "slow", 3, "hangs")
    fast, slow = found.cases
    assert slow.error.startswith("round 1: the process said nothing for 2 s while decode")
    assert fast.error is None and len(fast.rounds) == 1
    assert blocks(lines).count("fast") == 17


def test_ctrl_c_in_a_block_keeps_whole_rounds_of_all_cases_and_leaves_no_process(taken):
    found, lines, said = taken(["fast", "slow", "other"], 5, "other", 4, "interrupts")
    assert found.interrupted
    assert [len(case.rounds) for case in found.cases] == [1, 1, 1]
    assert [case.error for case in found.cases] == [None] * 3
    assert "interrupted: the rounds that are whole are kept" in said
    begun = [int(what.split()[1]) for _, what in lines if what.startswith("starts")]
    assert len(begun) == 6
    assert not any(os.path.exists("/proc/%d" % pid) for pid in begun)
