"""Every character is normalized as Hugging Face does, whatever Unicode this Python knows."""

import unicodedata

import pytest

from edgeformer.text.code_points import table
from edgeformer.text.normalizers import read_normalizer
from tests.text.make_family_golden import NORMALIZERS, character_sum, golden


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NORMALIZERS))
def test_every_character_becomes_what_hugging_face_makes_of_it(name):
    normalizer = read_normalizer(NORMALIZERS[name], "x")
    assert character_sum(normalizer) == golden()["characters"][name]


def test_what_is_new_since_unicode_9_is_what_such_a_python_does_not_know():
    unassigned = table("UNASSIGNED_IN_9")
    known = [
        code_point
        for start, end in zip(unassigned[::2], unassigned[1::2])
        for code_point in range(start, end)
        if unicodedata.category(chr(code_point)) != "Cn"
    ]
    assert bool(known) == (unicodedata.unidata_version != "9.0.0")
