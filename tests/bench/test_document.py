"""The document of a run is what schema.json says, and a file of one is whole or not there."""

import json
import os

import numpy
import pytest

from edgeformer.bench import document as documents
from edgeformer.bench import schema_check
from edgeformer.errors import EdgeformerError
from edgeformer.wholefile import check_writable
from tests.bench.documents import document


def refused(change):
    """The error that a document gives when it is changed like this."""
    made = document()
    change(made)
    with pytest.raises(EdgeformerError) as caught:
        documents.check(made)
    return str(caught.value)


def test_a_good_document_passes_and_survives_a_file(tmp_path):
    path = str(tmp_path / "bench.json")
    documents.write(path, documents.text_of(document()))
    assert documents.read(path) == document()
    assert os.listdir(str(tmp_path)) == ["bench.json"]


@pytest.mark.parametrize(
    "change, told",
    [
        (lambda d: d.update(format=2), "has format 2"),
        (lambda d: d.update(format=True, kind="x"), "kind is 'x'"),
        (lambda d: d.pop("cases"), "lacks the key 'cases'"),
        (lambda d: d.update(more=1), "unknown key 'more'"),
        (lambda d: d.update(cases=[]), "minItems is 1"),
        (lambda d: d["machine"].update(cpus=0), "machine.cpus is 0"),
        (lambda d: d["machine"].update(cpus=True), "machine.cpus is true"),
        (lambda d: d["machine"].update(load_average=[1, 2]), "machine.load_average is a list"),
        (lambda d: d["machine"].update(huge_pages="often"), "machine.huge_pages is 'often'"),
        (lambda d: d.update(made="yesterday"), "made is 'yesterday'"),
        (lambda d: d["cases"][1].update(error=3), "cases[1].error is 3"),
        (lambda d: d["cases"][0]["rounds"][1].update(load_s=-1), "cases[0].rounds[1].load_s is -1"),
        (lambda d: d["cases"][0]["rounds"][0]["rows_s"].update(x=1), "rounds[0].rows_s.x is 1"),
        (lambda d: d["cases"][0]["summary"]["token_s"].pop("p99"), "summary.token_s lacks the key"),
        (lambda d: d["comparisons"][0].update(verdict="a wins"), "verdict is 'a wins'"),
        (lambda d: d["samples"][0].update(power_w="5 W"), "samples[0].power_w is '5 W'"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(change, told):
    assert told in refused(change)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_never_reaches_a_file(value):
    assert "seconds is" in refused(lambda made: made.update(seconds=value))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2}', b"\xff\xfe", b"1" * 50])
def test_a_file_that_is_no_document_is_one_clear_error(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(EdgeformerError) as caught:
        documents.read(str(path))
    assert "x.json" in str(caught.value)
    assert "export" not in str(caught.value)


def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    check_writable(str(tmp_path / "new.json"))
    assert os.listdir(str(tmp_path)) == []
    for path, told in (
        (str(tmp_path), "is a directory"),
        (str(tmp_path / "no" / "x.json"), "there is no directory"),
        ("/proc/x.json", "cannot be written"),
    ):
        with pytest.raises(EdgeformerError) as caught:
            check_writable(path)
        assert told in str(caught.value)


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EdgeformerError) as caught:
        documents.write(str(path), "new")
    assert "No space left on device" in str(caught.value)
    assert path.read_text() == "old"
    assert os.listdir(str(tmp_path)) == ["x.json"]


def test_every_object_of_the_schema_says_what_it_holds():
    def objects(rule):
        if isinstance(rule, dict):
            if rule.get("type") == "object":
                yield rule
            for value in rule.values():
                yield from objects(value)

    found = list(objects(documents.schema()))
    assert len(found) > 12
    assert all("additionalProperties" in rule for rule in found)
    assert json.dumps(documents.schema()).count("\\u") == 0


def test_a_file_larger_than_any_run_is_refused_with_its_size_before_it_is_read(tmp_path):
    path = tmp_path / "large.json"
    with open(str(path), "wb") as file:
        file.truncate(1 << 40)  # nobody could read that
    with pytest.raises(EdgeformerError) as caught:
        documents.read(str(path))
    assert "large.json has %d bytes" % (1 << 40) in str(caught.value)
    assert "128 MiB" in str(caught.value) and "fewer rounds" in str(caught.value)


def test_what_fits_quickly_fits_and_what_does_not_is_looked_at_again():
    root = documents.schema()
    quick = schema_check.fits(root, root)
    assert quick(document())
    made = document()
    made["cases"][0]["rounds"][0]["token_s"][1] = float("nan")
    assert not quick(made)
    made["cases"][0]["rounds"][0]["token_s"][1] = numpy.float64(0.002)  # as good as a float
    assert not quick(made)
    documents.check(made)


def test_a_word_that_nothing_checks_is_no_rule():
    with pytest.raises(AssertionError, match="uses oneOf"):
        schema_check.fits({"properties": {"x": {"oneOf": []}}}, {})
