"""A graph that does not compute the model is found, named, and not published."""

import os

import pytest
import torch
from torch import nn

from edgeformer.errors import CheckFailed
from edgeformer.export import export_decoder
from edgeformer.nn.decoder import Decoder
from tests.nn.choices import PLAIN, PROMPT, random_decoder

# for a CPU: what FP16 would make of it is not asked here
OPTIONS = {"name": "b", "capacity": 40, "chunk": 3, "golden_prompt": PROMPT}
OPTIONS |= {"target": "cpu", "dialect": "portable"}


class WrongGraph(nn.Module):
    """Another function when it is traced: over several tokens, over one, or always."""

    def __init__(self, inner: nn.Module, tokens: tuple[int, ...]) -> None:
        super().__init__()
        self.inner, self.tokens = inner, tokens

    def forward(self, x):
        wrong = torch.jit.is_tracing() and int(x.shape[0]) in self.tokens
        return self.inner(x) * 1.01 if wrong else self.inner(x)


@pytest.mark.parametrize(
    ("tokens", "step"),
    [
        ((3,), r"prefill\.onnx differs .* at step 1 of 32"),
        ((1,), r"decode\.onnx differs .* at step 2 of 32"),
    ],
)
def test_the_graph_and_the_step_are_named(tokens, step, tmp_path):
    decoder = random_decoder(PLAIN)
    decoder.blocks[1].ff = WrongGraph(decoder.blocks[1].ff, tokens)
    with pytest.raises(CheckFailed, match=step) as caught:
        export_decoder(decoder, tmp_path / "b", **OPTIONS)
    assert "allowed 0.0001" in str(caught.value)
    assert caught.value.exit_code == 1
    assert os.listdir(tmp_path) == []


class WrongReference(Decoder):
    def forward(self, token_ids):
        logits = super().forward(token_ids)
        logits[:, 20:] += 0.05
        return logits


def test_a_cached_step_that_is_not_the_decoder_is_found(tmp_path):
    decoder = WrongReference(PLAIN).eval()
    decoder.load_state_dict(random_decoder(PLAIN).state_dict())
    with pytest.raises(CheckFailed, match=r"the cached PyTorch step differs .* at step 14 of 32"):
        export_decoder(decoder, tmp_path / "b", **OPTIONS)
    assert os.listdir(tmp_path) == []


def test_the_run_fills_the_cache_and_no_more(tmp_path):
    """64 steps where they fit, capacity - prompt otherwise; the bound is the device's too."""
    for capacity, steps in ((80, 64), (72, 64), (71, 63), (9, 1)):
        options = {**OPTIONS, "capacity": capacity, "force": True}
        made = export_decoder(random_decoder(PLAIN), tmp_path / "b", **options)
        assert len(made.golden.greedy_ids) == steps


@pytest.mark.parametrize("chunk", (1, 2, 8, 40))
def test_the_chunk_does_not_change_the_golden_tokens(chunk, tmp_path):
    made = export_decoder(random_decoder(PLAIN), tmp_path / "b", **{**OPTIONS, "chunk": chunk})
    wanted = export_decoder(random_decoder(PLAIN), tmp_path / "c", **OPTIONS)
    assert made.golden.greedy_ids == wanted.golden.greedy_ids
    assert made.golden.distinct >= 16
