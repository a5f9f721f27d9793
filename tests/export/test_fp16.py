"""FP16 in an export: which bundles are audited, and what FP32 graphs tell a builder of engines."""

import json
from types import SimpleNamespace

import onnx
import pytest
import torch

from edgeformer.__main__ import main
from edgeformer.bundle import Bundle
from edgeformer.engines.wanted import Asked, check_precision, wanted
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export.build import export_decoder
from edgeformer.export.fp16 import InFp16
from edgeformer.export.gate import Gate
from edgeformer.export.lint.origin import module_path
from edgeformer.export.pinned import PREFIX
from edgeformer.export.reading import Texts
from edgeformer.nn.pins import STREAM
from edgeformer.nn.tokenizer_training import make_char_tokenizer
from tests.nn.choices import PLAIN, PROMPT, random_decoder

CHARACTERS = "".join(map(chr, range(32, 127)))
TEXT = "It is a truth universally acknowledged, that a single man in possession of a fortune. " * 9
OPTIONS = {"name": "b", "capacity": 40, "chunk": 8, "golden_prompt": PROMPT}
HERE = SimpleNamespace(tensorrt="8.2.1", name="Nano", has_flags=True, has_types=False)
HERE = SimpleNamespace(**vars(HERE), compute_capability="5.3", fast_int8=False)


def scaled(path="blocks.1.ff.up", factor=3e2):
    decoder = random_decoder(PLAIN, 1)
    with torch.no_grad():
        decoder.get_submodule(path).weight.mul_(factor)
    return decoder


def texts(folder):
    (folder / "text.txt").write_text(TEXT)
    tokenizer = make_char_tokenizer(CHARACTERS)
    return {"texts": Texts(folder / "text.txt"), "tokenizer_json": tokenizer}


def exported(decoder, folder, **options):
    made = export_decoder(decoder, folder / "b", **{**OPTIONS, **options})
    return made, Bundle.open(str(made.path))


@pytest.mark.parametrize("precision", ("fp32", "fp16"))
def test_a_bundle_for_a_jetson_tells_what_fp16_costs_and_what_is_pinned(
    precision, tmp_path, capsys
):
    options = {"precision": precision, **texts(tmp_path), "gate": Gate(max_loss=0.01)}
    made, bundle = exported(scaled(), tmp_path, **options)
    manifest = bundle.manifest
    assert [pin.module for pin in manifest.pinned] == ["blocks.1.ff.down", STREAM]
    row = manifest.quality.precisions["fp16"]
    assert (manifest.quality.text.name, manifest.quality.window) == ("text.txt", 80)
    assert manifest.quality.tokens == len(TEXT) // 80 * 79
    assert 0 < row.kl < 1e-3
    assert row.top1 > 0.98
    assert set(manifest.golden.limits) == {precision, "fp16"}
    assert made.fp16.refused == ""
    assert main(["info", bundle.path]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "in floats blocks.1.ff.down: an activation of " in told
    assert "in floats residual: an activation of " in told


def test_fp32_graphs_name_what_an_engine_keeps_in_fp32(tmp_path):
    _, plain = exported(random_decoder(PLAIN, 1), tmp_path / "plain")
    _, bundle = exported(scaled(), tmp_path)
    for kind in ("prefill", "decode"):
        nodes = {}
        for found, key in ((plain, "plain"), (bundle, "pinned")):
            graph = onnx.load(
                found.file(found.manifest.graphs[kind].file), load_external_data=False
            )
            nodes[key] = {node.name for node in graph.graph.node}
        more = nodes["pinned"] - nodes["plain"]
        assert all(name.startswith(PREFIX) for name in more)
        assert {name.removeprefix(PREFIX) for name in more} == nodes["plain"] - nodes["pinned"]
        paths = {module_path(name) for name in more}
        rows = {""} if kind == "prefill" else set()  # what chooses the rows that get logits
        assert paths == {"blocks.0", "blocks.1", "blocks.1.ff", "blocks.1.ff.down"} | rows


def test_other_pins_give_other_engines(tmp_path):
    """The key covers the graphs' bytes, and a pin is in the names of nodes."""
    decoder = scaled(factor=1.0)
    _, one = exported(decoder, tmp_path / "one")
    with torch.no_grad():
        decoder.blocks[1].ff.up.weight[0, 0] = 1e5
    _, two = exported(decoder, tmp_path / "two")
    assert two.manifest.pinned and not one.manifest.pinned
    asked = Asked("fp16", (40,), (256,), ())
    here = ("8.2.1", "Nano", "5.3")
    files = {**two.manifest.files, "weights.bin": one.manifest.files["weights.bin"]}
    same = Bundle(two.path, two.manifest._replace(files=files))
    keys = [wanted(found, here, asked, "split", False).key for found in (one, same)]
    assert keys[0] != keys[1]


def test_a_bundle_for_a_cpu_is_not_audited(tmp_path):
    made, bundle = exported(scaled(), tmp_path, target="cpu", **texts(tmp_path))
    assert made.fp16 == InFp16()
    assert bundle.manifest.pinned == ()
    assert bundle.manifest.quality is None


@pytest.mark.parametrize("precision", ("fp32", "fp16"))
def test_what_fp16_cannot_hold_is_refused_where_it_would_be_fp16(precision, tmp_path):
    """FP32 graphs serve FP32 engines all the same."""
    decoder = scaled("blocks.0.attention.qkv", 3e4)
    if precision == "fp16":
        with pytest.raises(CheckFailed, match="a key or value"):
            exported(decoder, tmp_path, precision=precision)
        return
    made, bundle = exported(decoder, tmp_path)
    assert "a key or value" in made.fp16.refused
    assert "nothing was written" not in made.fp16.refused
    assert set(bundle.manifest.golden.limits) == {"fp32"}
    assert check_precision(bundle.manifest, HERE, "fp32", False) is False
    with pytest.raises(EdgeformerError, match=r"cannot be trusted in FP16.*--precision fp32"):
        check_precision(bundle.manifest, HERE, "fp16", False)


def test_fp16_that_loses_too_much_is_refused_unless_that_is_allowed(tmp_path):
    strict = {**texts(tmp_path), "gate": Gate(max_kl=1e-9)}
    made, bundle = exported(scaled(), tmp_path / "strict", **strict)
    assert made.fp16.refused.startswith("KL ")
    assert bundle.manifest.quality is None
    assert "fp16" not in bundle.manifest.golden.limits
    with pytest.raises(CheckFailed, match="--allow-quality-loss"):
        exported(scaled(), tmp_path / "half", precision="fp16", **strict)
    allowed = {**strict, "gate": Gate(max_kl=1e-9, allow=True)}
    _, bundle = exported(scaled(), tmp_path / "allowed", **allowed)
    assert bundle.manifest.quality.precisions["fp16"].allowed
    assert "fp16" in bundle.manifest.golden.limits


def test_a_pinned_embedding_cannot_be_outside_fp16_graphs(tmp_path):
    decoder = scaled("embedding", 3e5)
    exported(decoder, tmp_path / "graph", precision="fp16")
    with pytest.raises(CheckFailed, match=r"the embedding has a weight of .* outside the graphs"):
        exported(decoder, tmp_path / "host", precision="fp16", embedding="host")
    _, bundle = exported(decoder, tmp_path / "fp32", embedding="host")
    assert "embedding" in [pin.module for pin in bundle.manifest.pinned]


def test_a_text_that_nobody_asked_for_is_left_out_where_it_cannot_be_read(tmp_path):
    """A tokenizer of few letters cannot read the sample; FP32 graphs do without."""
    tokenizer = make_char_tokenizer("abcdefgh" + "".join(map(chr, range(200, 280))))
    made, bundle = exported(scaled(), tmp_path / "a", tokenizer_json=tokenizer)
    assert bundle.manifest.quality is None
    assert [pin.module for pin in made.fp16.pins] == ["blocks.1.ff.down", STREAM]
    with pytest.raises(EdgeformerError, match="--eval-text"):
        exported(scaled(), tmp_path / "b", tokenizer_json=tokenizer, precision="fp16")
    given = {"tokenizer_json": tokenizer, "texts": texts(tmp_path)["texts"]}
    with pytest.raises(EdgeformerError, match="--eval-text"):
        exported(scaled(), tmp_path / "c", **given)
    assert json.loads((made.path / "manifest.json").read_text())["pinned"][0]["why"]
