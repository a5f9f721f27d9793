"""Graphs that TensorRT's own parser refuses: the lint says so before, and `build` in our words."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgeformer.bundle import Bundle
from edgeformer.engines.building import build_engines
from edgeformer.engines.here import Here
from edgeformer.engines.wanted import Asked
from edgeformer.errors import EdgeformerError
from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import read_model
from edgeformer.targets import parser_for
from tests.bundles import ROPE, copied, replace_file
from tests.rtx.graphs import shared
from tests.rtx.library import Refused, installed

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
Model = onnx.ModelProto


@dataclasses.dataclass(frozen=True)
class Fault:
    """How prefill.onnx is spoilt, and the rule of the lint that must notice."""

    spoil: Callable[[Model], None]
    rule: str
    kind: str = "parser"  # of TensorRT's refusal


def first(model: Model, operator: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == operator)


def append(model: Model, operator: str, *inputs: str, kind: int = FLOAT, **attributes) -> None:
    """One more node at the end, whose output is the graph's."""
    node = helper.make_node(operator, inputs, ["seeded"], f"/seeded/{operator}", **attributes)
    model.graph.node.append(node)
    model.graph.output.append(helper.make_tensor_value_info("seeded", kind, None))


def constant(model: Model, value: np.ndarray | np.generic) -> str:
    name = f"seeded.{len(model.graph.initializer)}"
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return name


def cast(model: Model, name: str, kind: int) -> str:
    model.graph.node.append(helper.make_node("Cast", [name], [name + ".cast"], to=kind))
    return name + ".cast"


def edited(operator: str, **attributes) -> Callable[[Model], None]:
    """The first node of this operator with other attributes."""

    def spoil(model: Model) -> None:
        node = first(model, operator)
        del node.attribute[:]
        node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())

    return spoil


def reading(operator: str, slot: int, value: np.ndarray | str) -> Callable[[Model], None]:
    """The first node of this operator with another input."""

    def spoil(model: Model) -> None:
        name = value if isinstance(value, str) else constant(model, value)
        first(model, operator).input[slot] = name

    return spoil


def int64_mask(model: Model) -> None:
    for value in model.graph.input:
        if value.name in ("positions", "past_positions"):
            value.type.tensor_type.elem_type = INT64


def quantized(scale: float, zero: int) -> Callable[[Model], None]:
    def spoil(model: Model) -> None:
        parts = [constant(model, np.float32(scale)), constant(model, np.int8(zero))]
        model.graph.node.append(helper.make_node("QuantizeLinear", ["logits", *parts], ["q"], "q"))
        append(model, "DequantizeLinear", "q", *parts)

    return spoil


def cycle(model: Model) -> None:
    softmax = first(model, "Softmax")
    softmax.input[0] = softmax.output[0]


def twice(model: Model) -> None:
    one, other = [node for node in model.graph.node if node.op_type == "Softmax"][:2]
    other.output[0] = one.output[0]


def elsewhere(key: str, value: str) -> Callable[[Model], None]:
    def spoil(model: Model) -> None:
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                entry.value = value if entry.key == key else entry.value

    return spoil


def largest_4000(model: Model) -> None:
    append(model, "TopK", "logits", constant(model, np.array([4000], np.int64)))
    model.graph.node[-1].output.append("seeded.indices")


def opset_5(model: Model) -> None:
    model.opset_import[0].version = 5


ONE = np.array([1], np.int64)
FAULTS = {
    "an operator of nobody": Fault(lambda m: append(m, "Mystery", "logits"), "op-missing"),
    "Det": Fault(lambda m: append(m, "Det", "logits"), "op-missing"),
    "Unique": Fault(lambda m: append(m, "Unique", "rows"), "op-missing"),
    "MatMulInteger": Fault(
        lambda m: append(m, "MatMulInteger", *[constant(m, np.ones((2, 2), np.int8))] * 2),
        "op-missing",
    ),
    "Add of BOOL": Fault(
        lambda m: append(m, "Add", *[cast(m, "rows", BOOL)] * 2, kind=BOOL), "dtype"
    ),
    "Max of BOOL": Fault(
        lambda m: append(m, "Max", *[cast(m, "rows", BOOL)] * 2, kind=BOOL), "dtype"
    ),
    "Softmax of INT32": Fault(lambda m: append(m, "Softmax", "rows"), "dtype"),
    "an INT64 mask": Fault(int64_mask, "mixed-types"),
    "FP16 plus FP32": Fault(
        lambda m: append(m, "Add", "logits", cast(m, "logits", TensorProto.FLOAT16)), "mixed-types"
    ),
    "FP32 indices": Fault(lambda m: append(m, "Gather", "logits", "logits"), "index-type"),
    "opset 5": Fault(opset_5, "opset"),
    "no axis": Fault(edited("Concat"), "schema"),
    "an axis too far": Fault(edited("Softmax", axis=9), "sizes"),
    "a permutation that is none": Fault(edited("Transpose", perm=[0, 0, 1]), "sizes"),
    "a matrix that does not fit": Fault(reading("MatMul", 1, np.ones((7, 3), np.float32)), "sizes"),
    "parts that do not add up": Fault(
        reading("Split", 1, np.array([1, 2], np.int64)), "sizes", "builder"
    ),
    "a lost input": Fault(reading("Softmax", 0, "nobody"), "names"),
    "a cycle": Fault(cycle, "names"),
    "one name for two": Fault(twice, "names"),
    "a zero point": Fault(quantized(0.1, 3), "qdq-zero-point"),
    "a scale of 0": Fault(quantized(0.0, 0), "qdq-scale"),
    "K of 4000": Fault(largest_4000, "topk-limit", "builder"),
    "one output of two": Fault(lambda m: append(m, "TopK", "logits", constant(m, ONE)), "schema"),
    "weights of another length": Fault(elsewhere("length", "4"), "external-data"),
    "weights outside the folder": Fault(elsewhere("location", "../w.bin"), "external-data"),
}


@pytest.fixture
def spoilt(tmp_path):
    """A bundle whose prefill.onnx has a fault, and a manifest that knows nothing of it."""

    def make(fault: Fault) -> str:
        bundle = copied(ROPE, tmp_path)
        model = onnx.load(os.path.join(bundle, "prefill.onnx"), load_external_data=False)
        fault.spoil(model)
        replace_file(bundle, "prefill.onnx", model.SerializeToString())
        return bundle

    return make


@pytest.mark.parametrize("name", FAULTS)
def test_what_tensorrt_refuses_the_lint_refuses_too(name, rtx, spoilt):
    fault = FAULTS[name]
    bundle = Path(spoilt(fault))
    manifest = Bundle.open(ROPE).manifest
    contract = manifest.graphs["prefill"]
    model = onnx.load(bundle / "prefill.onnx", load_external_data=False)
    extra = [v.name for v in model.graph.output if v.name == "seeded"]
    contract = contract._replace(
        outputs=contract.outputs + tuple(contract.outputs[0]._replace(name=n) for n in extra)
    )
    profile = shared(manifest.graphs, manifest.capacity, manifest.chunk)["prefill"]
    with pytest.raises(Refused) as refused:
        rtx.build(bundle / "prefill.onnx", contract, profile)
    assert refused.value.kind == fault.kind, str(refused.value)
    found = lint_model(read_model(bundle / "prefill.onnx"), parser_for("10"))
    assert fault.rule in {f.rule for f in found if f.severity == ERROR}


def build(bundle: str, monkeypatch) -> None:
    """As `edgeformer build` does it, but for the probe, which needs a GPU."""
    site = [os.path.join(os.path.dirname(__file__), "site"), str(installed())]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(site))
    here = Here("1.7.1.116", "no GPU", "8.6", False, True, True, [])
    opened = Bundle.open(bundle)
    asked = Asked("fp32", (opened.manifest.capacity,), (256,), ())
    build_engines(opened, here, asked, ["shared"], 8 << 30, False, lambda text: None)


def test_a_good_bundle_gets_an_engine(spoilt, monkeypatch):
    bundle = spoilt(Fault(lambda model: None, ""))
    build(bundle, monkeypatch)
    (folder,) = (p for p in Path(bundle, "engines").iterdir() if p.is_dir())
    assert (folder / "engine.json").is_file()
    assert (folder / "prefill.plan").stat().st_size > 100_000


def test_a_refused_graph_is_told_with_its_node_and_the_way_to_the_lint(spoilt, monkeypatch):
    bundle = spoilt(FAULTS["an INT64 mask"])
    with pytest.raises(EdgeformerError) as refused:
        build(bundle, monkeypatch)
    text = str(refused.value)
    assert "TensorRT's parser refuses prefill.onnx" in text
    assert "fp32/Max" in text
    assert "python -m edgeformer.export lint" in text
    assert not [p for p in Path(bundle, "engines").iterdir() if p.is_dir()]


@pytest.mark.parametrize("what", ["missing", "cut off", "spoilt"])
def test_weights_that_are_not_the_bundles_own_are_refused_before_tensorrt(
    what, spoilt, monkeypatch
):
    bundle = spoilt(Fault(lambda model: None, ""))
    weights = Path(bundle, "weights.bin")
    content = weights.read_bytes()
    weights.unlink()
    if what != "missing":
        changed = content[:-1] if what == "cut off" else b"\1" + content[1:]
        weights.write_bytes(changed)
    with pytest.raises(EdgeformerError, match=r"weights\.bin"):
        build(bundle, monkeypatch)


def test_weights_that_are_cut_off_behind_the_manifests_back_are_the_parsers_refusal(
    spoilt, monkeypatch
):
    bundle = spoilt(Fault(lambda model: None, ""))
    content = Path(bundle, "weights.bin").read_bytes()
    replace_file(bundle, "weights.bin", content[: len(content) // 2])
    with pytest.raises(EdgeformerError, match=r"prefill\.onnx"):
        build(bundle, monkeypatch)
    shutil.rmtree(bundle)
