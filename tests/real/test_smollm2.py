"""A real checkpoint, exported from its GGUF, says what it says in `transformers`."""

import pytest

import edgeformer
from edgeformer.generation.loop import stream_ids
from edgeformer.generation.params import SamplingParams
from tests.real.files import BUNDLE


@pytest.fixture(scope="module")
def model():
    with edgeformer.load(BUNDLE, backend="ort") as loaded:
        yield loaded


@pytest.mark.parametrize("which", [0, 1], ids=["64-token-prompt", "512-token-prompt"])
def test_128_greedy_tokens_are_those_of_transformers(which, model, reference):
    prompt, expected = reference["prompts"][which], reference["greedy"][which]
    assert len(prompt) == (64, 512)[which]
    assert len(expected) == 128
    assert len(set(expected)) >= 16, "the reference repeats itself: another prompt tests more"
    manifest = model.bundle.manifest
    params = SamplingParams(max_new_tokens=128).checked()
    tokens = stream_ids(model.backend, prompt, params, (), manifest.capacity, manifest.chunk)
    assert [token for token, _ in tokens] == expected


def test_float32_has_the_perplexity_of_transformers(model, reference):
    quality = model.bundle.manifest.quality
    assert quality.text.name == "held_out.txt"
    assert quality.tokens == 16 * 255
    assert quality.perplexity == pytest.approx(reference["perplexity"], rel=1e-3)


def test_every_text_has_the_ids_of_transformers(model, reference):
    assert len(reference["texts"]) >= 300
    for text, ids in reference["texts"]:
        assert model.tokenizer.encode(text, allow_special=True) == ids, repr(text)


def test_a_chat_has_the_ids_of_transformers(model, reference):
    assert list(model.chat_ids(reference["messages"])) == reference["chat"]


def test_it_answers_and_ends_by_itself(model):
    answer = model.generate(
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        max_new_tokens=40,
    )
    assert "Paris" in answer.text
    assert answer.finish_reason == "stop"
