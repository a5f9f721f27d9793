"""A second bundle drafts for the first."""

import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError
from edgeformer.generation.drafting import Drafter, open, smaller
from tests import bundles

OLD = int(onnxruntime.__version__.split(".")[1]) < 24
PROMPTS = ([5, 9, 5, 9, 5], [3, 4, 5, 6, 3, 4], [11])


@pytest.fixture(scope="module")
def model():
    with edgeformer.load(bundles.ROPE) as opened:
        yield opened


@pytest.fixture
def cheap(monkeypatch):
    """The models are of one size here; as if the drafting one were much smaller."""
    monkeypatch.setattr(
        smaller, "step_cost", lambda model: 1 if "host" in model.bundle.path else 20
    )


class Nothing(Drafter):
    """In the place of Lookup, which would draft as well."""

    def begin(self, ids):
        pass

    def extend(self, token):
        pass

    def chances(self, most):
        return []


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(open, "Lookup", Nothing)


@pytest.mark.parametrize("asked", [{}, {"temperature": 0.7, "seed": 3}], ids=str)
def test_a_stream_has_the_same_tokens_and_the_same_model_is_always_right(
    model, cheap, alone, asked
):
    for prompt in PROMPTS:
        plain = model.generate(prompt, max_new_tokens=30, **asked)
        found = model.generate(prompt, max_new_tokens=30, draft=bundles.HOST, **asked)
        assert found.tokens == plain.tokens
        assert found.stats.drafted > 0
        if not asked and found.finish_reason == "length":
            assert found.stats.accepted == found.stats.drafted
            assert found.stats.steps < 15


def test_its_cache_holds_the_text_and_the_draft_and_nothing_else(model, cheap, alone):
    with edgeformer.load(bundles.HOST) as small:
        for asked in ({}, {"temperature": 2.0, "seed": 4}):
            found = model.generate(PROMPTS[1], draft=small, max_new_tokens=30, **asked)
            text = PROMPTS[1] + list(found.tokens)
            held = small.cached_ids
            agreed = next((i for i, (a, b) in enumerate(zip(held, text)) if a != b), len(held))
            assert len(held) - agreed <= 16 and agreed > len(PROMPTS[1])


def test_another_stream_on_it_in_between_changes_nothing(model, cheap, alone):
    with edgeformer.load(bundles.HOST) as small:
        plain = model.generate(PROMPTS[0], max_new_tokens=30)
        found = []
        for step in model.stream(PROMPTS[0], draft=small, max_new_tokens=30):
            found.append(step.token)
            if len(found) % 7 == 0:
                small.generate([7, 7, 7], max_new_tokens=3)
        assert tuple(found) == plain.tokens


def test_a_model_as_large_as_the_first_is_not_run(model, alone):
    found = model.generate(PROMPTS[0], max_new_tokens=30, draft=bundles.HOST)
    assert found.stats.drafted == 0


def test_what_repeats_is_looked_up_where_the_model_would_not_pay(model):
    asked = {"max_new_tokens": 30, "logit_bias": {5: 20.0}}
    plain = model.generate([5, 5, 5, 5], **asked)
    with edgeformer.load(bundles.HOST) as small:
        found = model.generate([5, 5, 5, 5], draft=small, **asked)
        assert found.tokens == plain.tokens and found.stats.accepted > 15
        assert small.cached_ids == []  # it was never run


@pytest.mark.skipif(OLD, reason="this onnxruntime has not all of the operators")
def test_fewer_bits_are_no_cheaper_than_they_read():
    """n4 reads a fifth of fp32's bytes, and its token takes two fifths of the time."""
    with edgeformer.load(bundles.BLOCKS) as n8, edgeformer.load(bundles.FUSED) as fp32:
        sizes = [max(m.bundle.sizes().values()) for m in (n8, fp32)]
        ratio = smaller.step_cost(n8) / smaller.step_cost(fp32)
        assert ratio == pytest.approx(1.6 * sizes[0] / sizes[1])
    with edgeformer.load(bundles.ROPE) as portable:
        size = max(portable.bundle.sizes().values())
        assert smaller.step_cost(portable) == pytest.approx(smaller.PORTABLE * size)


@pytest.mark.parametrize(
    "draft, why",
    [
        (bundles.LEARNED, "their tokenizers differ"),
        ("no-such-draft", "no file or bundle"),
        (17, "draft is int"),
    ],
)
def test_what_cannot_draft_is_refused_with_the_reason(model, draft, why):
    with pytest.raises(EdgeformerError, match=why):
        model.stream([5], draft=draft)
    with pytest.raises(EdgeformerError, match=why):
        edgeformer.load(bundles.ROPE, draft=draft)


def test_a_model_does_not_draft_for_itself(model):
    with pytest.raises(EdgeformerError, match="for itself"):
        model.stream([5], draft=model)


def test_load_says_what_streams_draft_with_that_do_not_say_it():
    with edgeformer.load(bundles.ROPE, draft="lookup") as opened:
        asked = {"max_new_tokens": 40, "logit_bias": {3: 20.0}}
        assert opened.generate([3, 3, 3, 3], **asked).stats.drafted > 0
        assert opened.generate([3, 3, 3, 3], draft="off", **asked).stats.drafted == 0
