"""Compare beams and scores of exported checkpoints with `transformers` and a softmax in float64."""

import functools

import numpy as np
import pytest
import torch
import transformers

import edgeformer
from tests.export.families.models import TOLERANCE

STEPS = 14
CLOSE = 2e-5  # of a score, as a share of it: twice what float32 makes of it here
CASES = [  # beams, length penalty, early stopping
    (2, 1.0, False),
    (3, 0.0, "never"),
    (4, 2.0, "never"),
    (4, 1.0, True),
    (5, -0.5, False),
]


@functools.lru_cache(maxsize=None)
def reference(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def source_of(made):
    """The folder that `transformers` wrote and the export read."""
    return made.bundle.path.rsplit("/", 1)[0] + "/source"


def searched(model, prompt, ends, case):
    """(tokens, score) of every beam of `transformers`, the best first."""
    beams, penalty, early = case
    found = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        num_beams=beams,
        num_return_sequences=beams,
        length_penalty=penalty,
        early_stopping=early,
        max_new_tokens=STEPS,
        do_sample=False,
        eos_token_id=ends,
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    rows = []
    for ids, score in zip(found.sequences.tolist(), found.sequences_scores.tolist(), strict=True):
        tokens = ids[len(prompt) :]
        over = next((i + 1 for i, token in enumerate(tokens) if token in ends), STEPS)
        rows.append((tuple(tokens[:over]), score))
    return rows


def check_beams(made):
    """With tokens of the greedy text for end tokens, so that beams do end."""
    prompt, ends = made.said.prompt, sorted(set(made.said.tokens[3:8]))[:3]
    lengths = set()
    with edgeformer.load(made.bundle.path, backend="ort", threads=1) as model:
        manifest = model.bundle.manifest._replace(eos_token_ids=tuple(ends))
        model.bundle = type(model.bundle)(model.bundle.path, manifest)
        for case in CASES:
            beams, penalty, early = case
            wanted = searched(reference(source_of(made)), prompt, ends, case)
            found = model.beams(
                prompt,
                beams=beams,
                n=beams,
                length_penalty=penalty,
                early_stopping=early,
                max_new_tokens=STEPS,
            )
            scores = [score for _, score in wanted]
            assert [each.score for each in found] == pytest.approx(scores, rel=CLOSE)
            gaps = np.diff(scores) / scores[1:]
            assert (gaps > CLOSE).all(), "two beams are as good: their order says nothing"
            assert [each.tokens for each in found] == [tokens for tokens, _ in wanted]
            lengths |= {len(each.tokens) for each in found}
    assert len(lengths) > 1, "no beam ended early"


def check_score(made):
    ids = [*made.said.prompt, *made.said.tokens]
    with torch.no_grad():
        logits = reference(source_of(made))(torch.tensor([ids])).logits[0].double()
    wanted = logits.log_softmax(-1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    with edgeformer.load(made.bundle.path, backend="ort", threads=1) as model:
        score = model.score(ids)
    largest = float(logits.abs().max())
    assert np.abs(np.array(score.logprobs[1:]) - wanted.numpy()).max() <= 2 * TOLERANCE * largest
    assert score.total == pytest.approx(float(wanted.sum()), rel=1e-4)
    assert score.perplexity == pytest.approx(float((-wanted.mean()).exp()), rel=1e-4)
