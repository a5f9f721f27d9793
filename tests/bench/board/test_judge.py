"""Which reports are believed: one that is whole and of a board, and none that was touched."""

import json
import os

import pytest

from edgeformer.bench.board import document
from edgeformer.bench.board.judge import reasons
from tests.bench.board.made import nano_report, resummed


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return nano_report(tmp_path_factory.mktemp("nano"))


@pytest.fixture
def report(whole):
    """A copy that a test may touch."""
    return json.loads(json.dumps(whole))


def bench(report):
    return report["bundles"][0]["bench"]


def turn(report, case=0, index=3):
    return bench(report)["cases"][case]["rounds"][index]


def test_a_whole_report_of_a_board_is_believed(report):
    document.check(report, "report")
    assert reasons(report) == []


def test_an_engine_that_could_not_be_built_is_no_reason_against_the_others(report):
    assert report["bundles"][0]["engines"][0]["error"] == "no kernel fits"
    assert reasons(report) == []


def set_machine(report, **changes):
    for machine in (report["machine"], bench(report)["machine"]):
        board = changes.pop("board", None)
        machine.update(changes)
        if board is not None:
            machine["board"].update(board)
            changes["board"] = board


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda r: set_machine(r, architecture="x86_64"), "is aarch64 and not x86_64"),
        (lambda r: set_machine(r, system="Linux-6.1-x86_64"), "(Linux-6.1-x86_64)"),
        (lambda r: set_machine(r, memory_bytes=16 << 30), "has 16384 MiB of memory"),
        (lambda r: set_machine(r, board={"l4t": "36.4.3"}), "does not run L4T 36.4.3"),
        (lambda r: set_machine(r, board={"target": None}), "none of our boards"),
        (lambda r: r.update(is_board=False), "is_board is false"),
        (lambda r: r["gpu"].update(compute_capability="8.9"), "GPU is 5.3 and not 8.9"),
        (lambda r: r["gpu"].update(tensorrt="10.3.0"), "has TensorRT 10.3.0"),
        (lambda r: r["gpu"].update(name="Stand-in GPU"), "the project's own tests"),
    ],
)
def test_a_machine_that_is_no_board_is_refused(report, change, why):
    change(report)
    assert any(why in reason for reason in reasons(report)), reasons(report)


def test_a_pc_is_refused(report):
    for machine in (report["machine"], bench(report)["machine"]):
        machine.update(board=None)
    assert any("is none of our boards" in reason for reason in reasons(report))


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda r: r.update(complete=False), "it is not complete"),
        (lambda r: r.update(commit="c" * 40 + "-dirty"), "-dirty: measure with a clean clone"),
        (lambda r: r.update(commit=None), "no commit that is known"),
        (lambda r: bench(r).update(commit="d" * 40), "another commit"),
        (lambda r: bench(r).update(complete=False), "its measuring is not complete"),
        (lambda r: bench(r)["cases"][1]["rounds"].pop(), "has 9 of 10 rounds"),
        (lambda r: bench(r)["cases"].pop(), "its cases are not"),
        (lambda r: r["bundles"][0]["checks"].pop(), "its checks are not those"),
        (
            lambda r: r["bundles"][0]["checks"][1].update(passed=False, what="3 of 26"),
            "no speed of fp32-split, which did not pass its check: 3 of 26",
        ),
        (
            lambda r: bench(r)["cases"][1]["parity"].update(passed=False),
            "no speed of tiny-learned fp32-split",
        ),
        (
            lambda r: bench(r)["cases"][1]["model"].update(sha256="0" * 64),
            "is of another bundle",
        ),
        (lambda r: bench(r)["machine"].update(processor="another"), "on another machine"),
        (
            lambda r: bench(r)["machine"].update(
                board=dict(r["machine"]["board"], power_mode="5W")
            ),
            "in another state: board",
        ),
        (lambda r: r.update(seconds=0.1), "for the whole report"),
    ],
)
def test_what_is_not_whole_right_or_of_one_machine_is_refused(report, change, why):
    change(report)
    assert any(why in reason for reason in reasons(report)), reasons(report)


def fewer_rounds(report):
    bench(report)["settings"]["rounds"] = 9
    for case in bench(report)["cases"]:
        case["rounds"].pop()
    resummed(report)


def faster(report):
    """What somebody would do who wants to look better: all rounds and the summary, in one go."""
    for one in bench(report)["cases"][1]["rounds"]:
        one["token_s"] = [value / 2 for value in one["token_s"]]
        one["outside_s"] = [value / 2 for value in one["outside_s"]]
    resummed(report)


def edited(*path):
    """A change of one number: a tenth less."""

    def change(report):
        place = bench(report)
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] *= 0.9

    return change


ONE = ("cases", 0, "rounds", 3)
SUM = ("cases", 1, "summary")


@pytest.mark.parametrize(
    "change, why",
    [
        (fewer_rounds, "9 rounds; 10 are the fewest"),
        (faster, "its energy is not its power times its time"),
        (
            edited(*SUM, "tokens_per_s", "median"),
            "'tiny-learned fp32-split': tokens_per_s.median is",
        ),
        (edited(*SUM, "token_s", "p99"), "token_s.p99 is"),
        (edited(*SUM, "load_s", "high"), "load_s.high is"),
        (edited(*SUM, "peak_rss_bytes", "low"), "peak_rss_bytes.low is"),
        (lambda r: bench(r)["comparisons"].pop(), "its comparisons are not those of each case"),
        (edited(*ONE, "token_s", 0), "its energy is not its power times its time"),
        (edited(*ONE, "power_w"), "its energy is not its power"),
        (
            edited("comparisons", 0, "low"),
            "token_s of 'tiny-learned fp32-split' against 'tiny-learned ort': low is",
        ),
        (lambda r: turn(r)["token_s"].pop(), "3 intervals between 5 tokens"),
        (lambda r: turn(r)["rows_s"].clear(), "other numbers of rows in use"),
        (lambda r: turn(r).update(energy_j_per_token=None), "one without the other"),
        (lambda r: turn(r).update(order=0), "is not where its turn is"),
        (lambda r: turn(r).update(at_s=0.0), "did not begin in their order"),
        (lambda r: turn(r).update(load_s=1000.0), "was not over when the next one began"),
        (lambda r: turn(r).update(available_low_bytes=3 << 30), "was below its low water"),
        (lambda r: bench(r)["samples"].reverse(), "samples are not in the order of time"),
    ],
)
def test_a_report_that_was_touched_is_refused(report, change, why):
    change(report)
    assert any(why in reason for reason in reasons(report)), reasons(report)


def test_nobody_can_halve_a_figure_anywhere_in_the_rounds_unseen(report):
    untouched = json.dumps(report)
    unseen = []
    for key in ("load_s", "warmup_s", "token_s", "outside_s", "first_token_s", "rows_s"):
        changed = json.loads(untouched)
        for one in bench(changed)["cases"][0]["rounds"]:
            one[key] = halved(one[key])
        if not reasons(changed):
            unseen.append(key)
    assert unseen == []


def halved(value):
    if isinstance(value, dict):
        return {key: halved(item) for key, item in value.items()}
    return [item / 2 for item in value] if isinstance(value, list) else value / 2


def test_the_command_tells_the_sender_what_would_be_said_against_it(report, capsys):
    from edgeformer.cli.bench import tell_reasons

    tell_reasons(report)
    assert "a maintainer can accept it" in capsys.readouterr().err
    report["commit"] = None
    tell_reasons(report)
    assert "would be refused: it was made with no commit" in capsys.readouterr().err


def test_no_file_of_the_repository_looks_like_a_board_but_the_accepted_ones():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(os.path.join(here, "..", "..", ".."))
    found = []
    for top in ("tests", "docs", "export"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith(".json") and os.path.getsize(path) < 1 << 20:
                    with open(path, encoding="utf-8", errors="replace") as file:
                        if '"kind": "board"' in file.read():
                            found.append(path)
    assert found == []
