"""Scores, beams and several answers over TensorRT's bindings are those of ONNX Runtime."""

import pytest

import edgeformer
from tests import bundles
from tests.standin.arithmetic import add_engines, execute


@pytest.fixture(autouse=True)
def arithmetic(standin):
    standin.set_executor(execute)


@pytest.mark.parametrize("layout", ["split", "shared"])
def test_scores_beams_and_answers_are_those_of_the_cpu(layout, tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    add_engines(path, layout=layout)
    found = []
    for backend in ("trt", "ort"):
        with edgeformer.load(path, backend=backend) as model:
            assert model.backend.name == backend
            text = "the cat and the other"
            score = model.score(list(range(3, 103)))
            beams = model.beams(text, beams=3, n=3, max_new_tokens=12)
            answers = model.answers(text, n=3, temperature=1.2, seed=1, max_new_tokens=12)
            assert [each.stats.reused_tokens > 0 for each in answers] == [False, True, True]
            found.append((score, beams, answers))
    (score, beams, answers), (wanted_score, wanted_beams, wanted_answers) = found
    assert score.logprobs[1:] == pytest.approx(wanted_score.logprobs[1:], rel=1e-3, abs=1e-3)
    assert [each.tokens for each in beams] == [each.tokens for each in wanted_beams]
    assert [each.score for each in beams] == pytest.approx(
        [w.score for w in wanted_beams], rel=1e-4
    )
    assert [each.tokens for each in answers] == [each.tokens for each in wanted_answers]
