"""The adapter for a module of one's own: the documented example, and what it refuses."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.checkpoint import load_checkpoint
from edgeformer.nn.families.recipe import made, rows
from edgeformer.nn.sources.module import ModuleSource, decoder_of

PAGE = Path(__file__).parents[3] / "docs" / "own-module.md"


@pytest.fixture
def example(tmp_path, monkeypatch):
    """What the code blocks of the page define, run in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        exec(block, names)
    return names


def test_the_documented_example_gives_a_checkpoint_of_the_same_model(example, tmp_path):
    saved, decoder = load_checkpoint(tmp_path / "my-decoder"), example["decoder"]
    ids = torch.randint(0, 97, (1, 50))
    with torch.no_grad():
        assert torch.equal(saved(ids), decoder(ids))
        assert decoder(ids).std() > 0.1


def test_a_wrong_choice_is_noticed_by_its_logits(example):
    wrong = dataclasses.replace(example["config"], feed_forward="relu")
    with pytest.raises(EdgeformerError, match="first at position 0"):
        decoder_of(example["MyDecoder"](), wrong, example["table"])


def test_a_wrong_window_is_noticed_where_it_begins_to_bind(example):
    wrong = dataclasses.replace(example["config"], window=7)
    with pytest.raises(EdgeformerError, match="first at position 7"):
        decoder_of(example["MyDecoder"](), wrong, example["table"])


def test_swapped_rows_are_noticed(example):
    def swapped(w):
        q, k, v = w.chunk(3)
        return torch.cat([k, q, v])

    table = dict(example["table"])
    table["blocks.{i}.attention.qkv.weight"] = made(swapped, "layers.{i}.qkv.weight")
    with pytest.raises(EdgeformerError, match="differ by"):
        decoder_of(example["MyDecoder"](), example["config"], table)


def test_a_tensor_that_nothing_uses_is_refused_unless_ignored(example):
    module = example["MyDecoder"]()
    module.register_buffer("mask", torch.ones(4, 4))
    with pytest.raises(EdgeformerError, match=r"1 tensors that no layer of a MyDecoder.*mask"):
        decoder_of(module, example["config"], example["table"])
    decoder_of(module, example["config"], example["table"], ignored=("mask",))


def test_a_tensor_that_the_table_forgets_is_named(example):
    table = {k: v for k, v in example["table"].items() if "ff.down" not in k}
    with pytest.raises(EdgeformerError, match=r"nothing says which tensors make blocks\.0\.ff\.d"):
        decoder_of(example["MyDecoder"](), example["config"], table)


def test_rows_of_the_wrong_number_are_refused(example):
    table = dict(example["table"]) | {"head.weight": rows("head.weight", "places.weight")}
    with pytest.raises(
        EdgeformerError, match=r"head\.weight \[97, 48\], places\.weight \[64, 48\]"
    ):
        decoder_of(example["MyDecoder"](), example["config"], table)


def test_a_module_that_gives_no_logits_is_told_what_to_pass(example):
    module = example["MyDecoder"]()
    with pytest.raises(EdgeformerError, match="pass logits="):
        decoder_of(
            module, example["config"], example["table"], logits=lambda ids: module.tokens(ids)
        )


def test_the_digest_follows_the_weights(example):
    module, table = example["MyDecoder"](), example["table"]
    before = ModuleSource(module, example["config"], table).digest()
    assert ModuleSource(module, example["config"], table).digest() == before
    with torch.no_grad():
        module.head.weight[0, 0] += 1
    assert ModuleSource(module, example["config"], table).digest() != before
