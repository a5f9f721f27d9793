"""What a caller may ask of a stream, and how each refusal names the allowed range."""

import numpy as np
import pytest

from edgeformer import EdgeformerError, SamplingParams

REFUSED = [
    ({"max_new_tokens": 0}, "from 1 to"),
    ({"max_new_tokens": -1}, "from 1 to"),
    ({"max_new_tokens": 2.0}, "from 1 to"),
    ({"max_new_tokens": True}, "from 1 to"),
    ({"temperature": -0.1}, "from 0 to 100"),
    ({"temperature": 101}, "from 0 to 100"),
    ({"temperature": float("nan")}, "from 0 to 100"),
    ({"temperature": float("inf")}, "from 0 to 100"),
    ({"temperature": "hot"}, "from 0 to 100"),
    ({"temperature": None}, "from 0 to 100"),
    ({"temperature": False}, "from 0 to 100"),
    ({"top_k": -1}, "from 0 to"),
    ({"top_k": 1.5}, "from 0 to"),
    ({"top_p": 0}, "above 0 and at most 1"),
    ({"top_p": 1.01}, "above 0 and at most 1"),
    ({"top_p": float("nan")}, "above 0 and at most 1"),
    ({"seed": -1}, "18446744073709551615"),
    ({"seed": 2**64}, "18446744073709551615"),
    ({"seed": 1.0}, "18446744073709551615"),
    ({"stop": ""}, "not an empty one"),
    ({"stop": ["a", ""]}, "not an empty one"),
    ({"stop": [1]}, "string"),
    ({"stop": 1}, "string"),
    ({"stop": None}, "string"),
    ({"stop": b"a"}, "string"),
    ({"deadline_s": 0}, "above 0"),
    ({"deadline_s": -1.0}, "above 0"),
    ({"deadline_s": float("nan")}, "above 0"),
    ({"deadline_s": "soon"}, "above 0"),
    ({"temprature": 1.0}, "known: max_new_tokens, temperature"),
]


@pytest.mark.parametrize("asked, named", REFUSED)
def test_a_value_out_of_range_is_refused_with_the_range(asked, named):
    with pytest.raises(EdgeformerError) as caught:
        SamplingParams().changed(asked)
    assert named in str(caught.value)
    assert next(iter(asked)) in str(caught.value)


def test_the_ends_of_each_range_are_allowed():
    SamplingParams(1, 0, 0, 1e-300, 0, "x").checked()
    SamplingParams(2**31 - 1, 100, 2**31 - 1, 1, 2**64 - 1, ("x", "y")).checked()
    assert SamplingParams().checked() == SamplingParams()


def test_checked_parameters_are_plain_python():
    asked = {
        "max_new_tokens": np.int64(3),
        "temperature": np.float32(0.5),
        "top_k": np.int32(2),
        "seed": np.uint64(2**64 - 1),
        "stop": "end",
        "deadline_s": np.float32(1.5),
    }
    params = SamplingParams().changed(asked)
    assert params == SamplingParams(3, 0.5, 2, 1.0, 2**64 - 1, ("end",), 1.5)
    assert [type(value) for value in params] == [int, float, int, float, int, tuple, float]


def test_asking_for_one_parameter_leaves_the_others():
    assert SamplingParams(temperature=0.7, top_k=5).changed({"top_k": 9}) == SamplingParams(
        temperature=0.7, top_k=9
    )
