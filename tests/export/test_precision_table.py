"""`precisions`: a row for each precision, from bundles that were really exported and run."""

import json

import pytest

from edgeformer.bundle import Bundle
from edgeformer.export.__main__ import main
from edgeformer.export.precision_table import HEAD
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.tokenizer_training import make_char_tokenizer
from tests.export.test_gate import CHARACTERS, TEXT, checkpoint
from tests.nn.choices import choice_decoder


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


def test_a_bundle_that_exists_is_not_replaced_unasked(tmp_path, model, capsys):
    words = [*model, "--precisions", "n8", "-o", str(tmp_path)]
    (tmp_path / "tiny-n8").mkdir()
    (tmp_path / "tiny-n8" / "manifest.json").write_text("{}")
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "tiny-n8" / "manifest.json").read_text() == "{}"


def test_a_precision_that_is_refused_is_a_line_of_the_table(tmp_path, capsys):
    decoder = choice_decoder("gqa")
    decoder.blocks[0].attention.qkv.weight.data[-8:] *= 1e7  # values that no FP16 cache holds
    save_checkpoint(tmp_path / "large", decoder, make_char_tokenizer(CHARACTERS))
    (tmp_path / "text.txt").write_text(TEXT)
    words = ["precisions", str(tmp_path / "large"), "--eval-text", str(tmp_path / "text.txt")]
    words += ["--rounds", "1", "--new-tokens", "2", "--precisions"]
    assert main([*words, "fp32,fp16"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("fp16 ") and "refused: " in last
    assert main([*words, "fp16"]) == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--precisions", "fp32,int3"], "'int3'; known: fp32"),
        (["--plot", "p.txt"], ".png, .svg or .pdf"),
        (["--plot", "nowhere/p.png"], "cannot be written"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--tokens", "3"], "tokens is 3"),
        (["--eval-text", "/nowhere"], "cannot read the text"),
    ],
)
def test_words_that_make_no_table_end_with_2(model, capsys, options, named):
    assert main([*model, "--precisions", "n8", *options]) == 2
    assert named in capsys.readouterr().err
