"""Decoders that other tools exported: what is found is there, and nothing else is."""

from collections import Counter

import onnx
import pytest

from edgeformer.export.lint import ERROR, lint_model
from edgeformer.export.lint.reading import read_model
from edgeformer.targets import parser_for
from tests.export.lint import foreign
from tests.export.lint.make_dynamo import PATH


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Typed models by (maker, opset), each exported once."""
    folder, made = tmp_path_factory.mktemp("foreign"), {}

    def get(make, opset):
        if (make, opset) not in made:
            path = folder / f"{make.__name__}-{opset}.onnx"
            foreign.export(make, path, opset)
            made[make, opset] = read_model(path)
        return made[make, opset]

    return get


def errors(model, version):
    """(rule, operator) -> how often."""
    found = lint_model(model, parser_for(version))
    return Counter((f.rule, f.operator) for f in found if f.severity == ERROR)


@pytest.mark.parametrize("make", [foreign.gpt2, foreign.llama])
@pytest.mark.parametrize("opset", [13, 17])
def test_newer_tensorrt_takes_a_traced_decoder(make, opset, exported):
    model = exported(make, opset)
    assert any(v.name == "past_key_values.1.value" for v in model.graph.input)
    assert errors(model, "8.6") == {}
    assert errors(model, "10") == {}


@pytest.mark.parametrize("make", [foreign.gpt2, foreign.llama])
def test_an_opset_13_decoder_gathers_a_bool_mask_which_8_2_refuses(make, exported):
    model = exported(make, 13)
    gathers = [n for n in model.graph.node if n.op_type == "Gather" and "BOOL" in kinds(model, n)]
    assert errors(model, "8.2") == {("dtype", "Gather"): len(gathers)}
    assert len(gathers) == 1


def kinds(model, node):
    types = {v.name: v.type.tensor_type.elem_type for v in model.graph.value_info}
    return {onnx.TensorProto.DataType.Name(types.get(name, 0)) for name in node.output}


def test_layer_normalization_is_missing_before_8_6(exported):
    model = exported(foreign.gpt2, 17)
    norms = [n for n in model.graph.node if n.op_type == "LayerNormalization"]
    assert len(norms) == 2 * foreign.LAYERS + 1
    assert errors(model, "8.5") == {("op-missing", "LayerNormalization"): len(norms)}
    found = errors(model, "8.2")
    assert found[("op-missing", "LayerNormalization")] == len(norms)
    assert found[("opset", "")] == 1
    assert sum(found.values()) == len(norms) + 2


def test_a_finding_names_the_module_of_a_traced_node(exported):
    found = lint_model(exported(foreign.gpt2, 17), parser_for("8.2"))
    norms = [f for f in found if f.operator == "LayerNormalization"]
    assert norms[0].module == "model.transformer.h.0.ln_1"
    assert norms[0].since == "8.6"
    assert "opset 13" in norms[0].rewrite


def test_a_dynamo_export_is_known_by_its_metadata_and_needs_no_weights():
    assert not (PATH.parent / "gone.bin").exists()
    model = read_model(PATH)
    norms = sum(n.op_type == "ReduceMean" for n in model.graph.node)
    expected = {("opset", ""): 1, ("reduce-axes", "ReduceMean"): norms, ("dtype", "GatherND"): 1}
    assert errors(model, "8.2") == expected
    found = lint_model(model, parser_for("8.2"))
    reduced = next(f for f in found if f.rule == "reduce-axes")
    assert reduced.module == "model.model.layers.0.input_layernorm (LlamaRMSNorm)"
    assert errors(model, "8.6") == {("opset", ""): 1, ("reduce-axes", "ReduceMean"): norms}
    assert errors(model, "10") == {}


def test_notes_are_few_and_say_what_changes(exported):
    notes = [f for f in lint_model(exported(foreign.llama, 13), parser_for("8.2")) if not f.node]
    assert [f.rule for f in notes] == ["int64"]
    assert "become INT32" in notes[0].fact
