"""What a bundle says of sampling, as a model's makers meant it, and options that say otherwise."""

import json

import pytest

import edgeformer
from edgeformer import SamplingParams
from edgeformer.__main__ import main
from edgeformer.generation.params import INTEGERS, NUMBERS
from tests import bundles


@pytest.fixture(scope="module")
def model():
    with edgeformer.load(bundles.ROPE, threads=1) as loaded:
        yield loaded


@pytest.mark.parametrize(
    "changed, plain",
    [
        ({"repetition_penalty": 3.0}, {"repetition_penalty": 1}),
        ({"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 0}),
        (
            {"temperature": 90.0, "repetition_penalty": 3.0},
            {"temperature": 0, "repetition_penalty": 1},
        ),
        ({"temperature": 90.0, "top_k": 2}, {"temperature": 0, "top_k": 0}),
    ],
)
def test_a_bundles_sampling_changes_answers_until_an_option_says_the_plain_value(
    changed, plain, model, tmp_path, capsys
):
    """In Python, as a command, with drafts; beams and scores are of the model alone."""
    path = bundles.copied(bundles.ROPE, tmp_path)
    bundles.edited(path, lambda data: data["sampling"].update(changed))
    asked = {"max_new_tokens": 24, "seed": 3}
    wanted = model.generate("the cat", max_new_tokens=24).tokens
    with edgeformer.load(path) as other:
        own = other.generate("the cat", **asked).tokens
        assert own != wanted
        assert model.generate("the cat", **asked, **changed).tokens == own
        assert other.generate("the cat", **asked, **changed, draft="lookup").tokens == own
        assert other.generate("the cat", max_new_tokens=24, **plain).tokens == wanted
        assert (
            other.generate("the cat", max_new_tokens=24, **plain, draft="lookup").tokens == wanted
        )
        beams = [each.beams("the cat", beams=2, max_new_tokens=5)[0] for each in (model, other)]
        assert beams[0].tokens == beams[1].tokens
        assert model.score("the cat").logprobs == other.score("the cat").logprobs
    words = [f"--{name.replace('_size', '').replace('_', '-')}={it}" for name, it in plain.items()]
    assert main(["generate", path, "the cat", "--max-new-tokens", "24", "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["tokens"] == list(wanted)


@pytest.mark.parametrize("end", [0, 1])
def test_what_a_stream_may_ask_a_bundle_may_say(end, tmp_path):
    """At both ends of the ranges: else an export would be refused after all its work."""
    path = bundles.copied(bundles.ROPE, tmp_path)
    ranges = {**NUMBERS, **INTEGERS}
    names = bundles.manifest_of(path).sampling._fields
    said = {name: ranges[name][end] for name in names}
    bundles.edited(path, lambda data: data["sampling"].update(said))
    with edgeformer.load(path) as model:
        assert model.defaults == SamplingParams(**said).checked()
