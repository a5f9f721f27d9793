"""A series as a document and as tables: what is compared, and what is not."""

import copy
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import main
from benchmarks.peers.document import document_of, text_of
from benchmarks.peers.engines import parse_pairs
from edgeformer.bench import conditions
from edgeformer.bench import document as documents
from tests.benchmarks.peers.conftest import BOTH


@pytest.fixture
def written(done):
    return made(done)


def made(series, confidence=0.5):
    about = {
        "made": "2026-01-01T00:00:00Z",
        "seconds": 1.0,
        "command": ["python", "-m", "benchmarks.peers"],
        "machine": conditions.machine(),
        "probed": {"working_set_bytes": 1 << 28, "threads": 1},
    }
    pairs = parse_pairs(None, [case.chosen for case in series.cases])
    return document_of(series, pairs, confidence, about)


@pytest.mark.slow
def test_document_is_what_the_schema_says(written):
    documents.check(written)
    assert written["complete"]
    assert written["machine"]["bandwidth_bytes_per_s"]["at_start"] == 2e10
    assert written["machine"]["packages"]["onnxruntime"]
    ours, theirs = written["cases"]
    assert ours["engine"] is None
    assert ours["model"]["dialect"] == "ort"
    assert theirs["engine"]["name"] == "transformers"
    assert theirs["engine"]["version"] == theirs["engine"]["environment"]["transformers"]
    assert theirs["model"]["weights_bytes"] > 40_000


@pytest.mark.slow
def test_what_is_fast_stands_beside_what_it_is_worth(written):
    figures = [entry["figure"] for entry in written["comparisons"]]
    assert figures[:4] == ["token_s", "rows_s/150", "first_token_s/8", "first_token_s/150"]
    for entry in written["comparisons"]:
        assert (entry["a"], entry["b"]) == tuple(BOTH.split(","))
        assert entry["verdict"] != "not compared"
        assert "KL from float32 0.00000 and 0.00000 nats" in entry["why"]
    # Random weights this small run many times faster through ONNX Runtime than in eager mode.
    assert written["comparisons"][0]["verdict"] == "a faster"
    assert written["comparisons"][0]["ratio"] > 1.5


@pytest.mark.slow
def test_too_few_rounds_give_no_ratio(done):
    for entry in made(done, confidence=0.95)["comparisons"]:
        assert entry["verdict"] == "not compared"
        assert "needs 6" in entry["why"]
        assert entry["ratio"] is None


@pytest.mark.slow
def test_no_ratio_where_parity_failed(done):
    broken = copy.copy(done)
    broken.cases = [copy.copy(case) for case in done.cases]
    broken.cases[0].tokens = {key: [0] * len(ids) for key, ids in done.cases[0].tokens.items()}
    for entry in made(broken)["comparisons"]:
        assert entry["verdict"] == "not compared"
        assert entry["why"].startswith("parity of edgeformer:fp32")


@pytest.mark.slow
def test_show_gives_the_table_of_a_file(written, tmp_path, capsys):
    path = tmp_path / "peers.json"
    documents.write(str(path), documents.text_of(written))
    assert main(["show", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.strip() == text_of(written).strip()
    assert "| edgeformer:fp32 |" in out
    assert "24 of 24, 24 of 24" in out


@pytest.mark.parametrize(
    "words, said",
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--prompt-tokens", "64,x"], "say 64,512"),
        (["--confidence", "1"], "--confidence is 1"),
        (["--new-tokens", "1"], "--new-tokens is 1"),
        (["--engines", "vllm:fp16"], "known: edgeformer:fp32"),
        (["--environments", "/nowhere"], "python -m benchmarks.peers install"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_made(words, said, capsys, tmp_path):
    cache = tmp_path / "cache"
    assert main(["run", "no.gguf", "--cache", str(cache), *words]) == 2
    assert said in capsys.readouterr().err
    assert not cache.exists()


def test_install_refuses_a_name_that_is_none(capsys, tmp_path):
    assert main(["install", "tensorflow", "--environments", str(tmp_path)]) == 2
    assert "there are ctranslate2, llama.cpp" in capsys.readouterr().err


def test_committed_results_are_documents_and_their_tables_are_theirs():
    folder = Path(documents.__file__).parents[2] / "benchmarks" / "results"
    found = sorted(folder.glob("*/peers-*.json"))
    assert found
    for path in found:
        document = documents.read(str(path))
        assert document["kind"] == "peers"
        assert text_of(document).strip() in (path.parent / "README.md").read_text("utf-8")
