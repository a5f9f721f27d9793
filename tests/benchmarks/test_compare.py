"""compare.py says what documents say, refuses what they cannot, and trusts nothing in them."""

import json

import compare
import pytest

from tests.bench.documents import settled
from tests.benchmarks.samples import (
    HOSTILE,
    board_document,
    board_report,
    model_case,
    rounds,
    save,
)

TRT_ORT = "tiny fp32 trt / tiny fp32 ort"


def compared(capsys, *arguments):
    """(exit status, stdout, stderr)"""
    status = compare.main(list(arguments))
    told = capsys.readouterr()
    return status, told.out, told.err


def cells(text, start):
    """The cells of the first row of a Markdown table whose first cell begins like this."""
    rows = [line for line in text.splitlines() if line.startswith("| " + start)]
    assert rows, text
    return [cell.strip() for cell in rows[0].strip("|").split(" | ")]


def test_table_gives_each_figure_with_its_unit(tmp_path, capsys):
    status, out, _ = compared(capsys, save(tmp_path, "a.json", board_document()))
    assert status == 0
    row = cells(out, "tiny fp32 ort")
    assert "passed: 64 of 64 golden tokens" in row
    assert "4.00 ms (4.00–4.00)" in row and "250" in row
    assert "16: 20.5 ms" in row and "100 MB" in row and "50 %" in row


def test_clocks_stand_beside_the_figures_where_they_are_known(tmp_path, capsys):
    made = board_document()
    _, out, _ = compared(capsys, save(tmp_path, "a.json", made))
    assert "clocks" not in out.partition("| case | parity")[2].partition("\n")[0]
    for index, turn in enumerate(made["cases"][1]["rounds"]):
        turn.update(cpu_hz=1479000000, gpu_hz=76800000 if index == 4 else 921600000, emc_hz=None)
    _, out, _ = compared(capsys, save(tmp_path, "a.json", made))
    assert cells(out, "tiny fp32 trt")[-1] == "CPU 1479 MHz, GPU 77 to 922 MHz"
    assert cells(out, "tiny fp32 ort")[-1] == "–"


def test_ratio_stands_with_its_interval_and_confidence(tmp_path, capsys):
    _, out, _ = compared(capsys, save(tmp_path, "a.json", board_document()))
    assert cells(out, TRT_ORT)[1:] == ["1", "0.500 (0.490–0.510)", "99.8 %", "–"]


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda case: case["parity"].update(passed=False, what="3 of 64"), "parity of"),
        (lambda case: case["parity"].update(passed=None), "was not checked"),
        (lambda case: case.update(error="killed by signal 9"), "tiny fp32 trt failed"),
        (lambda case: case.update(rounds=[]), "no finished round"),
    ],
)
def test_no_ratio_of_a_case_that_is_not_known_to_be_right(tmp_path, capsys, change, why):
    made = board_document()
    change(made["cases"][1])
    made["complete"] = False
    _, out, _ = compared(capsys, save(tmp_path, "a.json", settled(made)))
    for pair in (TRT_ORT, "tiny fp16 trt / tiny fp32 trt"):
        row = cells(out, pair)
        assert row[2:4] == ["not compared", "–"] and why in row[4]
    assert cells(out, "tiny fp16 trt / tiny fp32 ort")[2] == "0.250 (0.245–0.255)"


@pytest.mark.parametrize(
    "more, told",
    [
        ({"low": 0.9}, "low is 0.9, and its rounds give 0.49"),
        ({"verdict": "a faster"}, "verdict is 'a faster', and its rounds give 'b faster'"),
        ({"ratio": None}, "ratio is null, and its rounds give 0.5"),
        ({"confidence": 0.9999}, "confidence is 0.9999, and its rounds give 0.998"),
        ({"ratio": 0.4}, "ratio is 0.4, and its rounds give 0.5"),
    ],
)
def test_a_verdict_that_its_own_rounds_deny_is_refused(tmp_path, capsys, more, told):
    made = board_document()
    made["comparisons"][0].update(more)
    status, out, err = compared(capsys, save(tmp_path, "a.json", made))
    assert (status, out) == (2, "")
    assert "a.json: token_s of 'tiny fp32 trt' against 'tiny fp32 ort': " + told in err


def test_a_board_s_report_whose_summary_was_edited_is_refused(tmp_path, capsys):
    bench = board_document()
    bench["cases"][0]["summary"]["token_s"]["median"] = 0.001
    path = save(tmp_path, "report.json", board_report(board_document(), bench))
    status, out, err = compared(capsys, path)
    assert (status, out) == (2, "")
    assert "'tiny fp32 ort': token_s.median is 0.001, and its rounds give 0.004" in err


def test_no_difference_has_an_interval_and_no_ratio(tmp_path, capsys):
    made = board_document()
    made["cases"][1]["rounds"] = rounds(0.004)
    _, out, _ = compared(capsys, save(tmp_path, "a.json", settled(made)))
    assert cells(out, TRT_ORT)[2:] == ["no difference (0.980–1.020)", "99.8 %", "–"]


@pytest.mark.parametrize(
    "change",
    [
        lambda machine: machine.update(processor="another CPU"),
        lambda machine: machine.update(cpus=4),
        lambda machine: machine.update(memory_bytes=16000000000),
        lambda machine: machine.update(
            board=dict.fromkeys(("target", "l4t", "jetpack", "power_mode", "clocks_locked"))
        ),
    ],
)
def test_two_machines_share_no_table_and_this_is_said(tmp_path, capsys, change):
    other = board_document()
    change(other["machine"])
    if other["machine"]["board"]:
        other["machine"]["board"]["model"] = "NVIDIA Jetson Nano Developer Kit"
    paths = [save(tmp_path, "a.json", board_document()), save(tmp_path, "b.json", other)]
    status, out, _ = compared(capsys, *paths)
    assert status == 0 and "2 different machines" in out
    assert out.count("\n## ") == 2 and out.count("| case | parity") == 2
    assert "2: tiny" not in out, "the second machine's cases stand in a table of several runs"


def test_runs_of_one_machine_stand_side_by_side_with_what_differs_and_no_ratio(tmp_path, capsys):
    other = board_document()
    other["machine"]["packages"]["onnxruntime"] = "1.32.0"
    other["comparisons"] = []
    paths = [save(tmp_path, "a.json", board_document()), save(tmp_path, "b.json", other)]
    _, out, _ = compared(capsys, *paths)
    assert "different machines" not in out and out.count("| case | parity") == 1
    assert "**differs: onnxruntime**: 1.10.0 / 1.32.0" in out
    assert "no ratio is taken between them" in out
    assert cells(out, "1: tiny fp32 ort")[3:] == cells(out, "2: tiny fp32 ort")[3:]
    assert [line for line in out.splitlines() if " / tiny" in line and "| 1 |" in line]
    assert not [line for line in out.splitlines() if " / tiny" in line and "| 2 |" in line]


def test_cases_that_decoded_side_by_side_are_said_to_have(tmp_path, capsys):
    made = board_document()
    _, out, _ = compared(capsys, save(tmp_path, "a.json", made))
    assert "side by side" not in out
    made["settings"]["side_by_side"] = {"blocks": 3, "block_tokens": 2, "dropped_tokens": 1}
    _, out, _ = compared(capsys, save(tmp_path, "b.json", made))
    told = next(line for line in out.splitlines() if line.startswith("Conditions"))
    assert "side by side 3 blocks of 2 tokens, the first 1 dropped" in told
    assert cells(out, TRT_ORT)[2] == "0.500 (0.490–0.510)"


def test_what_is_unfinished_throttled_or_wrong_is_said_first(tmp_path, capsys):
    made = board_document()
    made["complete"] = False
    made["cases"][0]["rounds"][1]["throttled"] = True
    made["cases"][1]["parity"]["passed"] = False
    _, out, _ = compared(capsys, save(tmp_path, "a.json", settled(made)))
    before = out[: out.index("| case | parity")]
    for words in ("cut short", "throttled", "its speed is no result"):
        assert words in before


def test_markdown_of_a_hostile_document_has_no_tag_and_no_further_cell(tmp_path, capsys):
    made = board_document()
    made["cases"] = [model_case(HOSTILE, HOSTILE, model=HOSTILE[:20])]
    made["cases"][0].update(name=HOSTILE, error=HOSTILE)
    made["machine"].update(processor=HOSTILE, system=HOSTILE)
    made.update(comparisons=[], complete=False)
    _, out, _ = compared(capsys, save(tmp_path, "a.json", made))
    assert "<script" not in out and "\u202e" not in out
    head, row = (
        next(line for line in out.splitlines() if line.startswith(start))
        for start in ("| case", "| &lt;/svg")
    )
    assert row.replace("\\|", "").count("|") == head.count("|")


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "is a list"),
        ('{"format": 7}', "has format 7"),
        ('{"format": 1}', "lacks the key"),
        ("[" * 100000, "nested too deeply"),
        ('{"format": NaN}', "holds NaN"),
    ],
)
def test_a_damaged_or_unknown_document_is_an_error_and_no_traceback(tmp_path, capsys, text, told):
    path = tmp_path / "bad.json"
    path.write_text(text)
    status, out, err = compared(capsys, save(tmp_path, "good.json", board_document()), str(path))
    assert (status, out) == (2, "") and err.startswith("error: bad.json") and told in err


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.99])
def test_a_document_that_was_cut_off_is_an_error(tmp_path, capsys, cut):
    text = json.dumps(board_document())
    (tmp_path / "cut.json").write_text(text[: int(cut * len(text))])
    status, _, err = compared(capsys, str(tmp_path / "cut.json"))
    assert status == 2 and "cut.json is not JSON" in err


def test_names_that_lead_nowhere_or_to_two_cases_are_errors(tmp_path, capsys):
    made = board_document()
    made["comparisons"][0]["a"] = "nobody"
    status, _, err = compared(capsys, save(tmp_path, "a.json", made))
    assert status == 2 and "compares 'nobody'" in err
    made = board_document()
    made["cases"][1]["name"] = made["cases"][0]["name"]
    status, _, err = compared(capsys, save(tmp_path, "a.json", made))
    assert status == 2 and "two cases are called 'tiny fp32 ort'" in err


def test_a_boards_report_is_read_as_the_benches_of_its_bundles(tmp_path, capsys, monkeypatch):
    save(tmp_path, "report.json", board_report(board_document(), None, board_document()))
    monkeypatch.chdir(tmp_path)  # a long path is cut short
    status, out, err = compared(capsys, "report.json")
    assert status == 0, err
    assert "- run 1: report.json tiny" in out and "- run 2: report.json tiny" in out
    assert cells(out, "1: tiny fp16 trt") and cells(out, TRT_ORT)[1] == "1"
    status, _, err = compared(capsys, save(tmp_path, "none.json", board_report(None)))
    assert status == 2 and "nothing was measured: no bandwidth left" in err
    broken = board_document()
    broken["cases"][0]["threads"] = -1
    status, _, err = compared(capsys, save(tmp_path, "broken.json", board_report(broken)))
    assert status == 2 and "threads is -1" in err


def test_missing_files_and_none_at_all_are_errors(tmp_path, capsys):
    assert compared(capsys, str(tmp_path / "none.json"))[0] == 2
    status, _, err = compared(capsys)
    assert status == 2 and "give result files" in err
    status, _, err = compared(
        capsys, save(tmp_path, "a.json", board_document()), "-o", "/no/x.html"
    )
    assert status == 2 and "/no" in err
