"""`describe` tells what a checkpoint is without reading its weights."""

import json

import torch

from edgeformer.nn.sources import open_source
from edgeformer.nn.sources.inspect import describe, described
from tests.nn.families.models import reference
from tests.nn.sources.gguf_models import write_gguf


def test_it_tells_sizes_and_choices(tmp_path):
    model = reference("gemma2-window")
    model.save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("---\nlicense: gemma\n---\n")
    facts = describe(open_source(tmp_path))
    count = sum(p.numel() for p in model.parameters())
    assert facts["exported"]["parameters"] == count
    assert facts["stored_by_precision"] == {"F32": facts["stored"]}
    assert facts["stored"]["bytes"] == facts["exported"]["weight_bytes"]["fp32"] == 4 * count
    assert facts["model"]["norm_placement"] == "sandwich"
    assert "dropout" not in facts["model"]
    assert facts["exported"]["cache_bytes_per_token"] == 3 * 2 * 2 * 8 * 4
    assert facts["unsupported"] == []
    assert json.loads(json.dumps(facts)) == facts
    assert "licence gemma" in described(facts)


def test_weights_are_not_read(tmp_path):
    """A file of the right size whose weights are all NaN is described like any other."""
    model = reference("llama-mha")
    model.save_pretrained(tmp_path)
    whole = describe(open_source(tmp_path))
    path = tmp_path / "model.safetensors"
    raw = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(raw[:8], "little")
    raw[start:] = b"\xff" * (len(raw) - start)
    path.write_bytes(raw)
    assert describe(open_source(tmp_path)) == whole


def test_a_gguf_names_its_types_and_what_a_quantized_export_would_take(tmp_path):
    import gguf

    model = reference("llama-mqa-biases-tied")
    write_gguf(tmp_path / "m.gguf", model, gguf.GGMLQuantizationType.F16)
    facts = describe(open_source(tmp_path / "m.gguf"))
    assert set(facts["stored_by_precision"]) == {"F16", "F32"}
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    rest = sum(p.numel() for p in model.parameters()) - matrices
    assert facts["exported"]["weight_bytes"]["int8"] == matrices + 4 * rest


def test_what_is_not_supported_is_said_and_the_rest_still_told(tmp_path):
    model = reference("llama-mha")
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "mamba"}))
    facts = describe(open_source(tmp_path))
    assert "model type 'mamba' is not supported" in facts["unsupported"][0]
    assert facts["model"] is None
    assert facts["stored"]["tensors"] == len(list(model.state_dict()))
    assert "NOT SUPPORTED: model type 'mamba'" in described(facts)


def test_untied_tables_stay_float_in_a_quantized_export(tmp_path):
    model = reference("gpt2-inverse-untied")
    model.save_pretrained(tmp_path)
    sizes = describe(open_source(tmp_path))["exported"]["weight_bytes"]
    tables = model.transformer.wte.weight.numel() + model.transformer.wpe.weight.numel()
    assert sizes["int8"] > 4 * tables
    assert sizes["fp32"] == 4 * sum(p.numel() for p in model.parameters())
    assert torch.tensor(sizes["fp16"]) * 2 == sizes["fp32"]
