"""Bundles of precision `int8-qdq`: exported, measured, planned and checked like any other."""

import numpy as np
import onnx
import pytest
import torch

from edgeformer.__main__ import main
from edgeformer.bundle import Bundle
from edgeformer.errors import CheckFailed, EdgeformerError
from edgeformer.export.build import export_decoder
from edgeformer.export.gate import Gate
from tests.nn.choices import CHOICES, choice_decoder, random_decoder

WIDE = Gate(9.0, 9.0, 0.0)  # a random model's distributions are flat


def exported(decoder, folder, **options):
    options = {"name": "tiny", "target": "jetson-orin-nano", "gate": WIDE, **options}
    return export_decoder(decoder, folder / "bundle", precision="int8-qdq", **options)


def outlier():
    """One hidden channel of a thousand, which nothing can divide behind GELU."""
    decoder = random_decoder(CHOICES["gelu"], 1)
    with torch.no_grad():
        decoder.blocks[0].ff.up.weight[3] *= 1e3
        decoder.blocks[0].ff.down.weight[:, 3] /= 1e3
    return decoder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return exported(outlier(), tmp_path_factory.mktemp("int8")).path


def test_the_manifest_tells_the_quality_and_what_stays_out_and_why(bundle):
    manifest = Bundle.open(str(bundle)).manifest
    assert (manifest.precision, manifest.dialect) == ("int8-qdq", "portable")
    pins = {pin.module: pin.why for pin in manifest.pinned}
    assert pins["blocks.0.ff.down"].startswith("alone in INT8 it costs KL")
    assert 1 <= len(pins) < 9
    assert 0 < manifest.quality.precisions["int8-qdq"].kl < 1
    int8, engine = (manifest.golden.limits[name] for name in ("int8-qdq", "int8"))
    assert int8.logit_error < engine.logit_error
    assert int8.top1 > engine.top1


def test_both_graphs_hold_all_other_products_in_int8(bundle):
    for kind in ("prefill", "decode"):
        nodes = onnx.load(bundle / f"{kind}.onnx", load_external_data=False).graph.node
        products = {
            node.input[0].removesuffix(".int8")
            for node in nodes
            if node.op_type == "DequantizeLinear" and any(a.name == "axis" for a in node.attribute)
        }
        manifest = Bundle.open(str(bundle)).manifest
        assert len(products) == 9 - len(manifest.pinned)
        assert not products & {pin.module for pin in manifest.pinned}


def test_onnxruntime_passes_the_check_within_the_limits(bundle, capsys):
    assert main(["check", str(bundle)]) == 0
    assert "int8-qdq, within the bundle's limits" in capsys.readouterr().err


def test_the_plan_is_for_an_int8_engine(bundle, capsys):
    assert main(["plan", str(bundle), "--memory", "6000"]) == 0
    assert "on jetson-orin-nano-8gb, int8, capacity" in capsys.readouterr().out
    assert main(["plan", str(bundle), "--precision", "fp16"]) == 2
    assert "--precision fp32" in capsys.readouterr().err
    assert main(["plan", str(bundle), "--target", "jetson-nano", "--precision", "int8"]) == 2
    assert "no INT8" in capsys.readouterr().err


def test_a_model_that_loses_too_much_is_not_published(tmp_path):
    with pytest.raises(CheckFailed, match=r"(?s)int8-qdq .*--allow-quality-loss"):
        exported(outlier(), tmp_path, gate=Gate(max_kl=1e-4))
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("target", ["jetson-nano", "cpu"])
def test_other_targets_are_refused(target, tmp_path):
    with pytest.raises(EdgeformerError, match=f"for target jetson-orin-nano, not for {target}"):
        exported(choice_decoder("gqa"), tmp_path, target=target)


def test_equal_weights_are_told_apart(tmp_path):
    """Norms that were never trained are all ones, of which a trace keeps one."""
    decoder = choice_decoder("gqa")
    with torch.no_grad():
        for name, weight in decoder.named_parameters():
            if "norm" in name:
                weight.fill_(1.0)
    made = exported(decoder, tmp_path)
    names = {t.name for t in onnx.load(made.path / "prefill.onnx").graph.initializer}
    assert {
        f"blocks.{i}.{norm}_norm.weight" for i in (0, 1) for norm in ("attention", "ff")
    } < names
    assert made.quality.precisions["int8-qdq"].kl < 0.2


def test_the_embedding_can_be_the_hosts(tmp_path):
    made = exported(choice_decoder("tied"), tmp_path, embedding="host")
    manifest = Bundle.open(str(made.path)).manifest
    assert manifest.embedding.dtype == "float32"
    assert main(["check", str(made.path)]) == 0
    graph = onnx.load(made.path / "decode.onnx", load_external_data=False).graph
    head = next(t for t in graph.initializer if t.name == "head.int8")
    assert (list(head.dims), head.data_type) == ([32, 96], onnx.TensorProto.INT8)
    assert np.dtype(np.int8).itemsize * 32 * 96 < 4 * 32 * 96
