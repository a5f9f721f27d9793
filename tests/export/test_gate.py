"""The quality gate: what is measured, on what text, and what happens to a bundle that loses."""

import dataclasses
import json
import os
import re
import typing

import numpy as np
import pytest
import torch

from edgeformer.bundle import Bundle
from edgeformer.contract import DTYPES
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export.__main__ import main
from edgeformer.export.build import export_decoder
from edgeformer.export.fused_run import fused_logits
from edgeformer.export.gate import THRESHOLDS, Gate, misses, passed
from edgeformer.export.measure import Measured, check_same
from edgeformer.export.precisions import PRECISIONS
from edgeformer.export.quality import Quality, compare, graph_logits, torch_logits
from edgeformer.export.reading import Reading, Texts, own_text, read_texts
from edgeformer.export.recipe import Recipe
from edgeformer.manifest_quality import Thresholds
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.tokenizer_training import make_char_tokenizer
from edgeformer.text import load_tokenizer
from tests.nn.choices import choice_decoder, random_decoder

CHARACTERS = "".join(map(chr, range(32, 127)))
TEXT = "It is a truth universally acknowledged, that a single man in possession of a fortune. " * 9
LOOSE = Gate(max_loss=9.0, max_kl=9.0, min_top1=0.0)


def checkpoint(folder):
    save_checkpoint(folder / "tiny", choice_decoder("gqa"), make_char_tokenizer(CHARACTERS))
    (folder / "text.txt").write_text(TEXT)
    (folder / "other.txt").write_text(TEXT[::-1])
    texts = ["--eval-text", str(folder / "text.txt"), "--calibration-text"]
    return ["--model", str(folder / "tiny"), *texts, str(folder / "other.txt"), "--target", "cpu"]


def tokenizer(folder):
    path = folder / "tokenizer.json"
    path.write_text(make_char_tokenizer(CHARACTERS + "\n"))
    return load_tokenizer(str(path))


def found(perplexity=100.0, kl=0.0, top1=1.0):
    return Quality(640, 100.0, perplexity, kl, top1)


@pytest.mark.parametrize(
    ("quality", "named"),
    [
        (found(101.01), "perplexity +1.01%, allowed +1.00%"),
        (found(kl=0.0201), "KL 0.0201 nats, allowed 0.02"),
        (found(top1=0.899), "top-1 89.9%, at least 90.0% is wanted"),
        (found(float("nan")), "perplexity +nan%"),
        (found(kl=float("nan")), "KL nan nats"),
        (found(top1=float("nan")), "top-1 nan%"),
    ],
)
def test_each_threshold_is_missed_by_itself(quality, named):
    limits = Thresholds(0.01, 0.02, 0.9)
    assert misses(found(100.9, 0.02, 0.9), limits) == []
    assert misses(found(50.0), limits) == [], "better than float32 is no loss"
    (text,) = misses(quality, limits)
    assert text.startswith(named)


def test_a_precision_that_misses_is_published_only_when_that_is_allowed():
    reading = Reading(None, [[1, 2, 3]], torch.zeros(1, 3))
    good, bad = found(), found(150.0, 0.5, 0.5)
    with pytest.raises(CheckFailed) as caught:
        passed({"fp16": good, "n4": bad}, reading, Gate())
    text = str(caught.value)
    assert "n4: perplexity +50.00%" in text and "--allow-quality-loss" in text
    assert "fp16:" not in text and text.count("%") > 6, "the table is in the message"
    assert "MISSED" in text and "MISSED, and allowed" not in text
    table = passed({"fp16": good, "n4": bad}, reading, Gate(allow=True))
    assert [row.allowed for row in table.precisions.values()] == [False, True]
    loose = passed({"n4": bad}, reading, Gate(max_loss=0.6, max_kl=0.6, min_top1=0.4))
    assert not loose.precisions["n4"].allowed, "within thresholds that somebody set"
    assert loose.precisions["n4"].thresholds == Thresholds(0.6, 0.6, 0.4)


@pytest.mark.parametrize("precision", ["int8-dynamic", "n8", "n4"])
def test_a_bundle_carries_the_figures_of_its_own_graph(tmp_path, precision):
    decoder = choice_decoder("gqa")
    before = {name: tensor.clone() for name, tensor in decoder.state_dict().items()}
    options = {"name": "b", "target": "cpu", "precision": precision, "gate": LOOSE}
    made = export_decoder(decoder, tmp_path / "b", **options)
    for name, tensor in decoder.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    manifest = Bundle.open(str(tmp_path / "b")).manifest
    dialect = "portable" if precision == "int8-dynamic" else "ort"
    assert (manifest.dialect, manifest.precision, manifest.target) == (dialect, precision, "cpu")
    assert manifest.quality == made.quality and manifest.quality.text is None
    if dialect == "ort":
        logits = fused_logits(tmp_path / "b" / "step.onnx")
    else:
        logits = graph_logits(tmp_path / "b" / "prefill.onnx", decoder.config)
    reading = own_text(decoder)
    again = compare(torch_logits(decoder), logits, reading.windows)
    row = manifest.quality.precisions[precision]
    assert row.perplexity == pytest.approx(again.perplexity, rel=1e-4)
    assert row.kl == pytest.approx(again.kl, rel=1e-2) and row.kl > 1e-6
    assert manifest.quality.tokens == again.tokens


def test_four_bits_are_fewer_bytes_than_eight_and_eight_than_float32(tmp_path):
    decoder = random_decoder(choice_decoder("gqa").config)
    sizes = [
        export_decoder(decoder, tmp_path / p, name="b", target="cpu", precision=p, gate=LOOSE)
        .path.joinpath("weights.bin")
        .stat()
        .st_size
        for p in ("n4", "n8", "fp32")
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_a_loss_beyond_the_recipe_ends_with_1_the_table_and_no_bundle(tmp_path, capsys):
    words = [*checkpoint(tmp_path), "--precision", "n4", "-o", str(tmp_path / "b")]
    assert main(words) == 1
    err = capsys.readouterr().err
    assert any(f"n4: {figure}" in err for figure in ("perplexity", "KL", "top-1"))
    assert "text.txt, windows of" in err and "--allow-quality-loss" in err
    assert sorted(os.listdir(tmp_path)) == ["other.txt", "text.txt", "tiny"]
    assert main([*words, "--allow-quality-loss"]) == 0
    err = capsys.readouterr().err
    assert "MISSED, and allowed" in err
    row = json.loads((tmp_path / "b" / "manifest.json").read_text())["quality"]["precisions"]["n4"]
    assert row["allowed"] is True


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--precision", "n8", "--target", "jetson-nano"], "say --target cpu"),
        (["--precision", "n4", "--embedding", "host"], "leave out --embedding host"),
        (["--precision", "n8", "--eval-text", "/nowhere"], "cannot read the text"),
        (["--precision", "n8", "--no-tokenizer"], "has no tokenizer"),
        (["--precision", "fp32"], "--eval-text is about a reduced precision"),
        (["--precision", "n4", "--target", "cpu", "--block", "64"], "say --precision n8"),
        (["--precision", "fp16"], "--calibration-text is about quantized precisions"),
    ],
)
def test_what_cannot_be_measured_or_stored_is_a_mistake_of_the_user(
    tmp_path, capsys, options, named
):
    assert main([*checkpoint(tmp_path), "-o", str(tmp_path / "b"), *options]) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_calibration_never_sees_what_is_measured(tmp_path):
    words = tokenizer(tmp_path)
    (tmp_path / "a").write_text("a" * 300)
    (tmp_path / "b").write_text("b" * 300)
    reading = read_texts(Texts(tmp_path / "a", tmp_path / "b", 200), words, 64)
    letter = {name: set(words.encode(name)) for name in "ab"}
    assert set(np.ravel(reading.windows)) == letter["a"]
    assert set(reading.calibration.flatten().tolist()) == letter["b"]
    sample = read_texts(Texts(tokens=640), words, 64)
    measured, calibrated = np.ravel(sample.windows), sample.calibration.flatten().tolist()
    text = "".join(words.decode([int(i)]) for i in [*measured, *calibrated])
    assert len(set(calibrated)) > 20
    from edgeformer.export import reading as module

    assert module.SAMPLE.read_text().startswith(text), "the one begins where the other ends"


def test_two_forms_of_a_quantized_graph_may_differ_by_roundings_alone():
    decoder = choice_decoder("gqa")
    logits = torch_logits(decoder)
    ids = own_text(decoder).windows[0]
    wanted = list(logits(ids)[4:])
    noise = np.random.default_rng(0).standard_normal(np.shape(wanted)).astype(np.float32)
    scale = max(1.0, float(np.abs(wanted).max()))
    cost = Measured(0.05, 0.05, 0.9)
    check_same("it", [w + 5e-3 * scale * n for w, n in zip(wanted, noise)], wanted, cost)
    late = list(logits(ids)[3:-1])  # the token before: an order that is off by one
    blind = [logits([i])[0] for i in ids[4:]]  # a cache that is not read
    for wrong in (late, blind, [w * np.float32(np.nan) for w in wanted]):
        with pytest.raises(CheckFailed, match="at step"):
            check_same("it", wrong, wanted, cost)


def test_one_text_for_both_is_calibrated_on_behind_what_is_measured(tmp_path):
    words = tokenizer(tmp_path)
    (tmp_path / "text").write_text("".join(chr(97 + i // 40 % 26) for i in range(800)))
    (tmp_path / "copy").write_text((tmp_path / "text").read_text())
    for other in ("text", "copy"):
        reading = read_texts(Texts(tmp_path / "text", tmp_path / other, 400), words, 40)
        seen = {id for window in reading.windows for id in window}
        assert len(seen) == 10 and not seen & set(reading.calibration.flatten().tolist())
    sample = read_texts(Texts(tokens=640), words, 64).calibration
    from edgeformer.export.reading import SAMPLE

    named = read_texts(Texts(SAMPLE, None, 640), words, 64).calibration
    assert torch.equal(sample, named)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EdgeformerError, match="no regular file"):
        read_texts(Texts(tmp_path / "pipe"), tokenizer(tmp_path), 64)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is empty"),
        (b"  \n\n ", "is empty"),
        (b"\x00\x01\x02" * 99, "binary file"),
        (b"\xff\xfe\xfd" * 99, "not UTF-8"),
        ("これは日本語の文章です。".encode() * 9, "U+3053"),
        (b"word", "tokens of text to calibrate with"),
    ],
)
def test_a_text_that_says_nothing_is_named(tmp_path, content, named):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(EdgeformerError) as caught:
        read_texts(Texts(calibration=tmp_path / "text"), tokenizer(tmp_path), 64)
    assert named in str(caught.value)


def test_what_a_model_writes_itself_is_likely_to_it():
    decoder = choice_decoder("gqa")
    reading = own_text(decoder)
    assert sum(map(len, reading.windows)) >= 128
    logits = torch_logits(decoder)
    own = compare(logits, logits, reading.windows).perplexity
    generator = np.random.default_rng(0)
    random = generator.integers(0, decoder.config.vocab_size, np.shape(reading.windows)).tolist()
    assert own < 0.5 * compare(logits, logits, random).perplexity
    assert own_text(decoder).windows == reading.windows, "the same on every machine"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["blocks.1.ff.up.weight", "blocks.0.ff_norm.weight"])
@pytest.mark.parametrize("precision", ["int8-qdq", "int8-dynamic", "n8", "n4"])
def test_weights_that_are_no_numbers_are_named(precision, name, value):
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        decoder.get_parameter(name).view(-1)[3] = value
    with pytest.raises(EdgeformerError, match=f"{re.escape(name)} has numbers that are not"):
        PRECISIONS[precision].quantize(
            decoder, own_text(choice_decoder("gqa")).calibration, lambda text: None
        )


def test_every_list_of_precisions_is_the_same_one():
    (field,) = (f for f in dataclasses.fields(Recipe) if f.name == "precision")
    hint = typing.get_type_hints(Recipe)[field.name]
    assert tuple(PRECISIONS) == typing.get_args(hint) == tuple(DTYPES)
    assert tuple(THRESHOLDS) == tuple(name for name in DTYPES if name != "fp32")
