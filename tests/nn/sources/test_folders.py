"""Checkpoint folders: shards, precisions, ties, and tensors that do not belong."""

import copy
import hashlib
import json
import subprocess

import pytest
import safetensors.torch
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.checkpoint import save_checkpoint
from edgeformer.nn.families.load import load_decoder, plan_decoder
from edgeformer.nn.sources import open_source
from tests.nn.choices import CHOICES, random_decoder
from tests.nn.families.models import logit_error, reference

TOLERANCE = 1e-4


@pytest.fixture
def folder(tmp_path):
    """A llama with all biases and a tied head; tests change what they need."""
    reference("llama-mqa-biases-tied").save_pretrained(tmp_path)
    return tmp_path


def rewrite(folder, change):
    """Read all tensors, let `change` alter the dict, write them back."""
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path)


def configure(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("name", ["gemma2-window", "gpt_neox-parallel", "falcon-40b-style"])
def test_shards_are_one_checkpoint(name, tmp_path):
    model = reference(name)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    source = open_source(tmp_path)
    assert logit_error(model, load_decoder(source)) <= TOLERANCE
    listed = subprocess.run(
        "sha256sum *.safetensors | sha256sum", shell=True, cwd=tmp_path, stdout=subprocess.PIPE
    )
    assert source.digest() == listed.stdout.decode().split()[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", ["qwen3-wide-heads", "gpt2"])
def test_every_precision_of_weights_becomes_float32(name, dtype, tmp_path):
    """The reference is the rounded model, computed in float32."""
    model = copy.deepcopy(reference(name, seed=3))
    stored = {n: p.detach().to(dtype).clone() for n, p in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype))
    safetensors.torch.save_file(stored, tmp_path / "model.safetensors")
    model.config.to_json_file(tmp_path / "config.json")
    decoder = load_decoder(open_source(tmp_path))
    assert {p.dtype for p in decoder.parameters()} == {torch.float32}
    assert logit_error(model, decoder) <= TOLERANCE


def test_conversion_in_blocks_is_exact(tmp_path, monkeypatch):
    """Every bfloat16 there is, NaN apart, through blocks that cut it up."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    values = bits.view(torch.bfloat16)
    safetensors.torch.save_file({"w": values}, tmp_path / "w.safetensors")
    from edgeformer.nn.sources.safetensors import SafetensorsFile

    monkeypatch.setattr("edgeformer.nn.sources.safetensors.BLOCK", 1000)
    loaded = SafetensorsFile(tmp_path / "w.safetensors").load("w")
    assert torch.equal(loaded.nan_to_num(7.0), values.float().nan_to_num(7.0))


@pytest.mark.parametrize("name", ["llama-mqa-biases-tied", "gpt2", "bloom", "opt"])
def test_a_checkpoint_of_the_body_alone_has_the_same_weights(name, tmp_path):
    """As GPT-2's and BLOOM's own are: no prefix, and the head is the embedding."""
    model = reference(name)
    model.base_model.save_pretrained(tmp_path)
    assert logit_error(model, load_decoder(open_source(tmp_path))) <= TOLERANCE


def test_a_tied_table_may_be_stored_under_the_heads_name(folder):
    model = reference("llama-mqa-biases-tied")

    def move(tensors):
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")

    rewrite(folder, move)
    assert logit_error(model, load_decoder(open_source(folder))) <= TOLERANCE


def test_a_tied_head_that_is_stored_too_must_be_the_embedding(folder):
    model = reference("llama-mqa-biases-tied")

    def add(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    rewrite(folder, add)
    assert logit_error(model, load_decoder(open_source(folder))) <= TOLERANCE
    rewrite(folder, lambda tensors: tensors["lm_head.weight"][3].add_(1))
    with pytest.raises(EdgeformerError, match=r"lm_head\.weight is not the embedding"):
        load_decoder(open_source(folder))
    configure(folder, tie_word_embeddings=False)
    load_decoder(open_source(folder))


def test_tensors_that_are_computed_from_the_config_may_be_there(folder):
    def add(tensors):
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(5)
        tensors["model.rotary_emb.inv_freq"] = torch.ones(5)

    rewrite(folder, add)
    load_decoder(open_source(folder))


def test_causal_masks_of_gpt2_may_be_there(tmp_path):
    reference("gpt2").save_pretrained(tmp_path)

    def add(tensors):
        tensors["transformer.h.0.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
        tensors["transformer.h.2.attn.masked_bias"] = torch.tensor(-1e4)

    rewrite(tmp_path, add)
    load_decoder(open_source(tmp_path))


@pytest.mark.parametrize(
    "name", ["model.layers.1.self_attn.q_norm.weight", "model.layers.3.mlp.up_proj.weight", "extra"]
)
def test_a_tensor_that_no_layer_uses_is_refused_by_name(folder, name):
    rewrite(folder, lambda tensors: tensors.update({name: torch.ones(4)}))
    with pytest.raises(EdgeformerError, match=name):
        plan_decoder(open_source(folder))


def test_biases_that_the_config_denies_are_refused(folder):
    configure(folder, attention_bias=False)
    with pytest.raises(EdgeformerError, match=r"12 tensors that no layer .*k_proj\.bias"):
        plan_decoder(open_source(folder))


def test_a_bias_on_the_output_of_qwen2_is_refused(tmp_path):
    reference("qwen2-untied").save_pretrained(tmp_path)
    rewrite(tmp_path, lambda t: t.update({"model.layers.0.self_attn.o_proj.bias": torch.ones(36)}))
    with pytest.raises(EdgeformerError, match=r"o_proj\.bias"):
        plan_decoder(open_source(tmp_path))


def test_a_missing_tensor_is_named(folder):
    rewrite(folder, lambda tensors: tensors.pop("model.layers.2.mlp.down_proj.weight"))
    with pytest.raises(EdgeformerError, match=r"lacks 1 tensors.*2\.mlp\.down_proj\.weight"):
        plan_decoder(open_source(folder))


def test_a_shape_that_does_not_fit_is_named_with_both_shapes(folder):
    configure(folder, intermediate_size=52)
    with pytest.raises(EdgeformerError, match=r"gate_proj.weight \[50, 36\].*\[104, 36\]"):
        plan_decoder(open_source(folder))


def test_rows_that_are_missing_in_one_and_too_many_in_another_are_noticed(folder):
    """Query and key together have the right number, each by itself the wrong one."""

    def shift(tensors):
        for kind in ("weight", "bias"):
            q, k = (f"model.layers.0.self_attn.{part}_proj.{kind}" for part in ("q", "k"))
            both = torch.cat([tensors[q], tensors[k]])
            tensors[q], tensors[k] = both[:50].clone(), both[50:].clone()

    rewrite(folder, shift)
    with pytest.raises(EdgeformerError, match=r"q_proj.bias \[50\]|q_proj.weight \[50, 36\]"):
        plan_decoder(open_source(folder))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_tensor_with_nan_or_infinity_is_named(folder, value):
    name = "model.layers.1.mlp.up_proj.weight"
    rewrite(folder, lambda tensors: tensors[name].view(-1)[777].fill_(value))
    with pytest.raises(EdgeformerError, match=f"tensor {name} holds NaN or infinity"):
        load_decoder(open_source(folder))


def test_integer_weights_are_refused_as_quantized(folder):
    name = "model.layers.1.mlp.up_proj.weight"
    rewrite(folder, lambda tensors: tensors.update({name: tensors[name].to(torch.int8)}))
    with pytest.raises(EdgeformerError, match=f"{name} is I8.*quantized"):
        load_decoder(open_source(folder))


@pytest.mark.parametrize("name", ["llama-mha", "gpt2", "opt", "mpt", "falcon-rw-style"])
def test_fewer_positions_give_the_same_logits(name, tmp_path):
    model = reference(name)
    model.save_pretrained(tmp_path)
    decoder = load_decoder(open_source(tmp_path), max_positions=24)
    assert decoder.config.max_positions == 24
    assert logit_error(model, decoder, length=24) <= TOLERANCE


def test_phi3_with_few_positions_takes_the_short_factors(tmp_path):
    """transformers chooses by the length of the text; a graph of 20 positions never needs more."""
    model = reference("phi3-long")
    model.save_pretrained(tmp_path)
    assert logit_error(model, load_decoder(open_source(tmp_path), 20), length=20) <= TOLERANCE


def test_more_positions_than_the_model_has_are_refused(folder):
    with pytest.raises(EdgeformerError, match="has 64 positions, 65 were asked for"):
        load_decoder(open_source(folder), max_positions=65)


@pytest.mark.parametrize("name", ["like-gpt2", "like-gemma", "alibi-bfloat16"])
def test_our_own_checkpoints_are_a_source_too(name, tmp_path):
    decoder = random_decoder(CHOICES[name])
    save_checkpoint(tmp_path, decoder)
    source = open_source(tmp_path)
    assert (source.kind, source.family) == ("edgeformer", "edgeformer")
    loaded = load_decoder(source)
    assert loaded.config == decoder.config
    for ours, theirs in zip(loaded.parameters(), decoder.parameters()):
        assert torch.equal(ours, theirs)


def test_the_digest_of_one_file_is_its_sha256(folder):
    raw = (folder / "model.safetensors").read_bytes()
    assert open_source(folder).digest() == hashlib.sha256(raw).hexdigest()


# What else a folder holds


def test_end_tokens_are_joined_from_every_file(folder):
    configure(folder, eos_token_id=2)
    write(folder / "generation_config.json", {"eos_token_id": [5, 2]})
    write(folder / "tokenizer_config.json", {"eos_token": {"content": "<|end|>"}})
    write(folder / "tokenizer.json", {"added_tokens": [{"id": 7, "content": "<|end|>"}]})
    assert open_source(folder).eos_token_ids == [2, 5, 7]


def test_the_name_of_the_end_token_is_looked_up_wherever_it_stands(folder):
    (folder / "generation_config.json").unlink()
    configure(folder, eos_token_id=None)
    write(folder / "tokenizer_config.json", {"eos_token": "</s>"})
    assert open_source(folder).eos_token_ids == []
    write(folder / "tokenizer.json", {"model": {"vocab": {"</s>": 4}}})
    assert open_source(folder).eos_token_ids == [4]
    decoder = {"added_tokens_decoder": {"6": {"content": "</s>"}}}
    write(folder / "tokenizer_config.json", {"eos_token": "</s>", **decoder})
    assert open_source(folder).eos_token_ids == [6]


def test_end_tokens_outside_the_vocabulary_are_left_out(folder):
    configure(folder, eos_token_id=[2, 83, -1, True, "2"])
    assert open_source(folder).eos_token_ids == [2]


def test_chat_templates_of_all_places(folder):
    assert open_source(folder).chat_templates == {}
    write(folder / "tokenizer_config.json", {"chat_template": "one"})
    assert open_source(folder).chat_templates == {"default": "one"}
    named = [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]
    write(folder / "tokenizer_config.json", {"chat_template": named})
    assert open_source(folder).chat_templates == {"default": "a", "tool_use": "b"}
    (folder / "chat_template.jinja").write_text("newer")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "rag.jinja").write_text("c")
    assert open_source(folder).chat_templates == {"default": "newer", "tool_use": "b", "rag": "c"}


def test_the_licence_is_read_from_the_model_card(folder):
    assert open_source(folder).license is None
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# license: x\n")
    assert open_source(folder).license == "apache-2.0"
    (folder / "README.md").write_text("# A model\nlicense: mit\n")
    assert open_source(folder).license is None


def test_tokenizer_files_are_listed(folder):
    write(folder / "tokenizer.json", {})
    (folder / "tokenizer.model").write_bytes(b"")
    (folder / "notes.json").write_text("{}")
    files = open_source(folder).tokenizer_files
    assert {name: path.name for name, path in files.items()} == {
        "tokenizer.json": "tokenizer.json",
        "tokenizer.model": "tokenizer.model",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("config.json", "model.safetensors", "generation_config.json"),
        *("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    ],
)
@pytest.mark.parametrize("target", ["../blobs/gone", "{name}"])
def test_a_link_that_leads_nowhere_is_named_and_not_taken_for_no_file(name, target, folder):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target.format(name=name))
    with pytest.raises(EdgeformerError, match=f"`{folder / name}` is a link.*cp -rL"):
        open_source(folder)


def write(path, values):
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, {}),
        ({"temperature": 0.7, "top_k": 20, "top_p": 0.8}, {}),
        (
            {"do_sample": False, "top_p": 0.8, "repetition_penalty": 1.1},
            {"repetition_penalty": 1.1},
        ),
        ({"do_sample": True, "top_p": 0.8, "min_p": None}, {"temperature": 1.0, "top_p": 0.8}),
        (
            {"do_sample": True, "temperature": 0.6, "top_k": 20, "min_p": 0.1, "typical_p": 0.9},
            {"temperature": 0.6, "top_k": 20, "min_p": 0.1, "typical_p": 0.9},
        ),
        ({"no_repeat_ngram_size": 3, "max_length": 5, "new": {}}, {"no_repeat_ngram_size": 3}),
        ({"do_sample": None, "top_p": 0.8}, {}),
    ],
)
def test_sampling_is_what_the_generation_config_asks_for(folder, given, wanted):
    path = folder / "generation_config.json"
    path.unlink(missing_ok=True)
    if given is not None:
        write(path, given)
    assert open_source(folder).sampling == wanted


@pytest.mark.parametrize(
    "given",
    [
        *({"temperature": "0.6"}, {"top_k": -1}, {"top_p": 0}, {"repetition_penalty": True}),
        *({"do_sample": 1}, {"do_sample": "true"}),
    ],
)
def test_sampling_that_makes_no_sense_is_refused_with_its_file(folder, given):
    write(folder / "generation_config.json", {"do_sample": True, **given})
    with pytest.raises(EdgeformerError, match=rf"generation_config.json`: {next(iter(given))} is"):
        open_source(folder)
