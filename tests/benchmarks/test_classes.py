"""What kinds of models cost: classes.py on a tiny shape, and its committed figures in the docs."""

import glob
import json
import os

import pytest

from benchmarks import classes
from edgeformer.nn.config import ModelConfig

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(classes.__file__)))
TINY = {"d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_ff": 96}


def documents():
    found = sorted(glob.glob(os.path.join(ROOT, "benchmarks", "results", "*", "classes-*.json")))
    for path in found:
        with open(path, encoding="utf-8") as file:
            yield json.load(file)


def test_a_class_is_measured_in_both_orders_and_dialects(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(classes, "SHAPE", {**classes.SHAPE, **TINY, "max_positions": 80})
    path = str(tmp_path / "found.json")
    words = ["--only", "ALiBi", "--portable", "--rows", "8", "16", "--tokens", "2", "--rounds", "3"]
    assert classes.main([*words, "-o", path]) == 0
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    one = found["classes"]["ALiBi"]
    for table in (one["rows"], one["portable"]):
        assert list(table) == ["8", "16"]
        for told in table.values():
            assert [len(order) for order in told["seconds"]] == [3, 3]
    assert found["machine"]["packages"]["onnxruntime"]
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.count("|") == row.count("|") and row.startswith("| ALiBi | ")


def test_a_ratio_is_the_second_models_whichever_was_loaded_first():
    found = classes.summary([[[0.010, 0.020]], [[0.010, 0.005]]])
    assert found["ratio"] == pytest.approx(1.0)
    assert classes.summary([[[1.0, 1.5]] * 3, [[2.0, 3.0]] * 3])["ratio"] == pytest.approx(1.5)


def test_each_class_differs_from_the_plain_model():
    plain = classes.config_of({})
    found = [classes.config_of(change) for change in classes.CLASSES.values()]
    assert all(isinstance(config, ModelConfig) for config in found)
    assert len({json.dumps(config.to_json()) for config in [plain, *found]}) == len(found) + 1


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--only", "Alibi"], "no class is called 'Alibi'"), (["--rows", "1010"], "1 to 1003")],
)
def test_what_cannot_be_measured_is_refused(words, told, capsys):
    with pytest.raises(SystemExit) as stopped:
        classes.main(words)
    assert stopped.value.code == 2 and told in capsys.readouterr().err


def test_the_committed_turns_give_the_committed_figures_and_the_table_of_the_docs():
    with open(os.path.join(ROOT, "docs", "cpu.md"), encoding="utf-8") as file:
        docs = file.read()
    found = list(documents())
    assert found
    for document in found:
        for one in document["classes"].values():
            for told in one["rows"].values():
                again = classes.summary(told["seconds"])
                assert again["ratio"] == pytest.approx(told["ratio"])
                assert again["quartiles"] == pytest.approx(told["quartiles"])
        for line in classes.table(document).splitlines():
            assert line in docs, line
