"""Drafts on engines: eight tokens are scored in one step, through the engine of prompts."""

import pytest

from edgeformer.generation.stream import Stream
from edgeformer.model import Model
from tests import bundles
from tests.drafters import Told
from tests.standin.arithmetic import execute
from tests.standin.test_tokens import SHAPES, opened


@pytest.fixture(autouse=True)
def arithmetic(standin):
    standin.set_executor(execute)


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("asked", [{}, {"temperature": 0.8, "seed": 5}], ids=str)
def test_a_drafted_stream_has_the_tokens_of_a_plain_one(shape, asked, tmp_path):
    backend, bundle = opened(bundles.ROPE, tmp_path, **SHAPES[shape])
    manifest = bundle.manifest
    with Model(bundle, backend, None) as model:
        params = model.defaults.changed(dict(asked, max_new_tokens=40))
        prompt = [5, 9, 5, 9, 5]
        args = backend, prompt, params, frozenset(), manifest.capacity, manifest.chunk
        plain = [step.token for step in Stream(*args)]
        assert len(set(plain)) >= 8
        for wrong in (0, 3):
            stream = Stream(*args, drafter=Told(prompt + plain, wrong))
            assert [step.token for step in stream] == plain
            assert stream.stats.accepted > 10
            assert max(row[2] for row in backend.held[len(prompt) :]) == 8
            assert backend.cached == len(prompt) + len(plain) - 1
            assert model.cached_ids == prompt + plain[:-1]
