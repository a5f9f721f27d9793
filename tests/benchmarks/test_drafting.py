"""The benchmark of drafting: the same tokens, or no ratio."""

import glob
import json
import os

import pytest

from benchmarks import drafting
from tests import bundles


@pytest.fixture
def prompts(tmp_path, monkeypatch):
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps({"copying": ["she was", "he was"], "prose": ["it is"]}))
    monkeypatch.setattr(drafting, "PROMPTS", str(path))
    return str(tmp_path / "result.json")


def test_it_writes_each_pair_and_a_summary(prompts, capsys):
    words = [bundles.ROPE, "--plain-prompts", "--tokens", "12", "--rounds", "2", "-o", prompts]
    assert drafting.main(words) == 0
    with open(prompts, encoding="utf-8") as file:
        found = json.load(file)
    assert [len(group["pairs"]) for group in found["groups"].values()] == [4, 2]
    assert found["groups"]["copying"]["summary"]["different"] == 0
    assert found["machine"]["packages"]["onnxruntime"] and found["precision"] == "fp32"
    assert "copying: 4 pairs, all tokens the same" in capsys.readouterr().out


def test_another_token_leaves_no_ratio_and_fails(prompts, capsys, monkeypatch):
    answer = drafting._answer

    def other(model, prompt, way, options):
        found = answer(model, prompt, way, options)
        return found if way == "off" else found._replace(tokens=(*found.tokens[:-1], 1))

    monkeypatch.setattr(drafting, "_answer", other)
    assert drafting.main([bundles.ROPE, "--plain-prompts", "--tokens", "12"]) == 1
    assert "2 of 2 answers have OTHER tokens: no ratio" in capsys.readouterr().out


def test_the_committed_prompts_are_25_of_each_kind():
    with open(drafting.PROMPTS, encoding="utf-8") as file:
        found = json.load(file)
    assert {name: len(set(group)) for name, group in found.items()} == {"copying": 25, "prose": 25}


def test_the_committed_pairs_give_the_committed_summaries():
    folder = os.path.join(os.path.dirname(drafting.__file__), "results")
    found = glob.glob(os.path.join(folder, "*", "drafting-*.json"))
    assert len(found) >= 2
    for path in found:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        for group in document["groups"].values():
            again = drafting._summary(group["pairs"])
            assert again["different"] == 0 and len(group["pairs"]) >= 9
            assert again.pop("quartiles") == pytest.approx(group["summary"].pop("quartiles"))
            assert again == pytest.approx(group["summary"])
