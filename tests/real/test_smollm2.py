"""A real checkpoint, exported from its GGUF, says what it says in `transformers`."""

from statistics import median
from time import perf_counter

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


def test_the_second_turn_of_a_chat_computes_only_what_is_new(model):
    fed, step = [], model.backend.step

    def counted(token_ids, *more):
        fed.append(len(token_ids))
        return step(token_ids, *more)

    chat = model.chat()
    list(chat.send("Who are you?", max_new_tokens=60))
    rows = model.backend.cached
    model.backend.step = counted
    try:
        answer = chat.send("And who made you?", temperature=1.0, seed=1, max_new_tokens=1)
        list(answer)
    finally:
        del model.backend.step
    new = model.tokenizer.encode("<|im_end|>\n<|im_start|>user\nAnd who made you?", True)
    new += model.tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n", True)
    assert answer.stats.reused_tokens == rows
    assert rows + sum(fed) == answer.stats.prompt_tokens
    assert len(new) <= sum(fed) <= len(new) + 1  # the last token of an answer has no row


def test_a_prefix_of_500_tokens_starts_5_times_earlier_than_computing_it(model, tmp_path):
    path = str(tmp_path / "rows")
    ids = [(index * 7919 + 13) % 40000 + 100 for index in range(504)]
    model.save_prefix(path, ids[:500])
    computed, loaded = [], []
    for _ in range(5):
        started = perf_counter()
        model.generate(ids, max_new_tokens=1, reuse=False)
        computed.append(perf_counter() - started)
        started = perf_counter()
        model.load_prefix(path)
        answer = model.generate(ids, max_new_tokens=1)
        loaded.append(perf_counter() - started)
        assert answer.stats.reused_tokens == 500
    assert median(one / other for one, other in zip(computed, loaded)) > 5
