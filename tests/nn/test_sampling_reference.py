"""The sampling rules against the ones of transformers, and docs/generation.md, which says so."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from edgeformer import SamplingParams
from edgeformer.generation.sampling import Sampler
from tests.nn import rule_cases


@pytest.fixture(scope="module")
def results():
    return rule_cases.results()


@pytest.mark.parametrize("name", [*rule_cases.RULES, rule_cases.ALL, rule_cases.GREEDY])
def test_a_rule_leaves_what_transformers_leaves(results, name):
    equal, cases, classes = results[name]
    assert equal == cases
    assert len(classes) == 1 or name in (rule_cases.ALL, rule_cases.GREEDY)


def test_the_page_has_the_table_of_these_results(results):
    with open(rule_cases.PAGE, encoding="utf-8") as file:
        committed = file.read()
    assert rule_cases.page(committed, results) == committed


def test_a_case_that_differs_is_counted_and_shown():
    found = {"top_k": (59, 60, ["TopKLogitsWarper"])}
    assert rule_cases.rendered(found).splitlines()[-1] == "| top_k | `TopKLogitsWarper` | 60 | 59 |"


@pytest.fixture(scope="module")
def model():
    """A tiny model whose greedy text varies."""
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.5}
    config = LlamaConfig(
        vocab_size=60, num_hidden_layers=1, num_attention_heads=2, eos_token_id=57, **sizes
    )
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(
    ("asked", "theirs"),
    [
        ({"repetition_penalty": 1.8}, {}),
        ({"no_repeat_ngram_size": 2}, {}),
        ({"min_new_tokens": 30}, {}),
        (
            {"banned_tokens": list(range(20, 40)), "logit_bias": {7: 3.0, 5: -9.0}},
            {
                "bad_words_ids": [[token] for token in range(20, 40)],
                "sequence_bias": [[[7], 3.0], [[5], -9.0]],
            },
        ),
        ({"repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "min_new_tokens": 20}, {}),
    ],
)
def test_greedy_text_under_rules_is_that_of_generate(model, asked, theirs):
    """`generate` computes the rules in float32; no two logits lie that near here."""
    prompt = [1, 9, 4, 1]
    wanted = model.generate(
        torch.tensor([prompt]),
        max_new_tokens=40,
        do_sample=False,
        pad_token_id=0,
        **(theirs or asked),
    )[0].tolist()
    params = SamplingParams().changed(asked)
    sampler = Sampler(params, 0, len(prompt), [57])
    ids = list(prompt)
    while len(ids) < len(prompt) + 40 and ids[-1] != 57:
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1].numpy()
        ids.append(sampler(logits, ids))
    assert ids == wanted
    assert len(set(ids)) >= 8
    plain = model.generate(
        torch.tensor([prompt]), max_new_tokens=40, do_sample=False, pad_token_id=0
    )
    assert ids != plain[0].tolist()
