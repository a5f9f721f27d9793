"""Each family computes what `transformers` computes, from the files that `transformers` saves."""

import pytest

from edgeformer.nn.families import FAMILIES, ours
from edgeformer.nn.families.load import load_decoder
from edgeformer.nn.sources import open_source
from tests.nn.families.models import logit_error, reference
from tests.nn.families.shapes import SHAPES

TOLERANCE = 1e-4


@pytest.mark.parametrize("name", SHAPES)
def test_logits_equal_those_of_transformers(name, tmp_path):
    model = reference(name)
    model.save_pretrained(tmp_path)
    assert logit_error(model, load_decoder(open_source(tmp_path))) <= TOLERANCE


def test_every_family_has_at_least_two_shapes():
    found = [SHAPES[name]().model_type for name in SHAPES]
    assert not [f for f in FAMILIES if f != ours.NAME and found.count(f) < 2]
