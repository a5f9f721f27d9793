"""`precisions`: a row for each precision, from bundles that were really exported and run."""

import json

import pytest

from edgeformer.bundle import Bundle
from edgeformer.export.__main__ import main
from edgeformer.export.precision_table import HEAD
from tests.export.test_gate import checkpoint


@pytest.fixture
def model(tmp_path):
    _, folder, *texts = checkpoint(tmp_path)
    return ["precisions", folder, *texts[:4], "--rounds", "2", "--new-tokens", "3"]


def test_rows_hold_what_the_bundles_say_and_as_many_rates_as_rounds(tmp_path, model, capsys):
    words = [*model, "--precisions", "fp32,n8,n4", "-o", str(tmp_path), "--json"]
    assert main([*words, "--plot", str(tmp_path / "p.png")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    rows = {row["precision"]: row for row in found["precisions"]}
    assert list(rows) == ["fp32", "n8", "n4"]
    assert rows["fp32"]["bytes"] > rows["n8"]["bytes"] > rows["n4"]["bytes"]
    for name in ("n8", "n4"):
        manifest = Bundle.open(str(tmp_path / f"tiny-{name}")).manifest
        measured = manifest.quality.precisions[name]
        assert rows[name]["perplexity"] == measured.perplexity
        assert rows[name]["kl"] == measured.kl > 0
        assert rows[name]["within"] is not measured.allowed
        assert rows["fp32"]["perplexity"] == manifest.quality.perplexity
        assert found["conditions"]["eval_tokens"] == manifest.quality.tokens
    assert all(len(row["rates"]) == 2 and min(row["rates"]) > 0 for row in rows.values())


def test_half_precision_is_measured_but_not_timed_on_a_cpu(model, capsys):
    assert main([*model, "--precisions", "fp32,fp16"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1] == HEAD and [line.split()[0] for line in out[2:]] == ["fp32", "fp16"]
    speed = slice(HEAD.index("tokens/s"), HEAD.index("tokens/s") + len("tokens/s"))
    assert float(out[2][speed]) > 0
    assert out[3][speed].strip() == "-"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--precisions", "fp32,int3"], "'int3'; known: fp32"),
        (["--plot", "p.txt"], ".png, .svg or .pdf"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--tokens", "3"], "tokens is 3"),
        (["--eval-text", "/nowhere"], "cannot read the text"),
    ],
)
def test_words_that_make_no_table_end_with_2(model, capsys, options, named):
    assert main([*model, "--precisions", "n8", *options]) == 2
    assert named in capsys.readouterr().err
