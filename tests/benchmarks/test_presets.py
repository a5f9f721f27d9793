"""presets.py on bundles that were given: one table, documents of the one format, a page."""

import json

import presets
import pytest

from edgeformer.bench import document as documents
from tests import bundles
from tests.benchmarks.samples import board_document, model_case


def ladder(capsys, *arguments):
    """(exit status, stdout, stderr)"""
    status = presets.main([*arguments])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_given_bundles_become_one_table_and_documents_of_the_one_format(capsys):
    status, out, err = ladder(
        capsys, bundles.ROPE, bundles.INT8, "--rounds", "1", "--threads", "1", "--json"
    )
    assert status == 0, err
    assert "TensorRT: none of these bundles has an engine here" in err
    *table, last = out.splitlines()
    (found,) = json.loads(last)
    documents.check(found)
    assert [case["parity"]["passed"] for case in found["cases"]] == [True, True]
    rows = [line for line in table if " ort |" in line]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [c["name"] for c in found["cases"]]
    for row in rows:
        assert (" ms (" in row and " MB | " in row and "64 of 64" in row) or "passed" in row
    assert "rounds 1" in out and "threads 1" in out
    assert [entry["verdict"] for entry in found["comparisons"]].count("not compared") == len(
        found["comparisons"]
    )


def test_cases_of_two_models_are_never_compared():
    made = board_document()
    made["cases"] += [model_case("fp32", model="other"), model_case("n8", model="other")]
    pairs = {(entry["a"], entry["b"]) for entry in presets._by_model(made)}
    assert pairs == {
        ("tiny fp32 ort", "tiny fp32 trt"),
        ("tiny fp32 ort", "tiny fp16 trt"),
        ("other fp32 ort", "other n8 ort"),
    }


@pytest.mark.parametrize("arguments", [[], ["--quick", bundles.ROPE]])
def test_it_is_either_the_presets_or_bundles(capsys, arguments):
    status, out, err = ladder(capsys, *arguments)
    assert (status, out) == (2, "") and "say --quick or --full, or give bundles" in err


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, capsys):
    status, _, err = ladder(capsys, bundles.ROPE, "-o", str(tmp_path / "no" / "x.html"))
    assert status == 2 and "there is no directory" in err and "round" not in err
