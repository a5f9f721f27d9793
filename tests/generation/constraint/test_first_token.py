"""Where an answer stands alone its first token loses its space, and fits by what is shown."""

import re

import pytest

from edgeformer import SamplingParams
from edgeformer.generation.constraint import Constraints, wanted
from edgeformer.generation.stream import Stream
from tests.generation.constraint import ENGINES
from tests.generation.constraint.random_model import RandomModel
from tests.text.family_parts import FAMILIES, document_around
from tests.text.make_family_golden import golden, model_name
from tests.text.small import tokenizer_of


@pytest.fixture(scope="module", params=["llama2", "t5", "bert", "gpt2", "gemma"])
def tokenizer(request, tmp_path_factory):
    kind, parts = FAMILIES[request.param]
    document = document_around(kind, golden()["models"][model_name(request.param)], parts)
    return tokenizer_of(document, tmp_path_factory.mktemp("family"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("after_text", [True, False])
@pytest.mark.parametrize("pattern", ["[a-e ]{3}[a-z]{0,3}", "[a-z]*( [a-z]+){2}[.!]?"])
def test_what_is_shown_matches_for_every_kind_of_tokenizer(tokenizer, engine, after_text, pattern):
    ends = frozenset([0])
    constraints = Constraints(tokenizer, ends, tokenizer.vocab_size, engine)
    whole = 0
    for seed in range(6):
        params = SamplingParams().changed({"temperature": 1.0, "seed": seed})
        text = tokenizer.stream(after_text=after_text)
        follows = constraints.start(wanted(pattern, None), after_text)
        model = RandomModel(tokenizer.vocab_size, seed)
        stream = Stream(model, [5], params, ends, 200, 16, text, constraint=follows)
        shown = "".join([step.text for step in stream])
        if stream.finish_reason == "stop":
            whole += 1
            assert re.fullmatch(pattern, shown), shown
    assert whole >= 3


def test_the_first_token_may_be_one_that_begins_with_a_space(tmp_path):
    kind, parts = FAMILIES["llama2"]
    tokenizer = tokenizer_of(document_around(kind, golden()["models"][kind], parts), tmp_path)
    (token,) = [i for i in range(tokenizer.vocab_size) if tokenizer.token(i) == "▁a"]
    for engine in ENGINES:
        constraints = Constraints(tokenizer, frozenset([0]), tokenizer.vocab_size, engine)
        for after_text in (True, False):
            follows = constraints.start(wanted("a| a b", None), after_text)
            assert follows.mask([])[token]  # " a" goes on to " a b", or is shown as "a"
            assert follows.may_end([token]) == (not after_text)
