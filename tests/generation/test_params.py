"""What a caller may ask of a stream, and how each refusal names the allowed range."""

import numpy as np
import pytest

from edgeformer import EdgeformerError, SamplingParams

SPECIMEN = SamplingParams(max_new_tokens=1, seed=1, deadline_s=1.0, logprobs=0)._asdict()

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
    ({"min_p": 1.01}, "from 0 to 1"),
    ({"min_p": float("nan")}, "from 0 to 1"),
    ({"min_p": None}, "from 0 to 1"),
    ({"typical_p": 0}, "above 0 and at most 1"),
    ({"typical_p": True}, "above 0 and at most 1"),
    ({"repetition_penalty": 0}, "from 0.01 to 100"),
    ({"repetition_penalty": -1.0}, "from 0.01 to 100"),
    ({"repetition_penalty": float("inf")}, "from 0.01 to 100"),
    ({"frequency_penalty": 100.5}, "from -100 to 100"),
    ({"presence_penalty": "1"}, "from -100 to 100"),
    ({"no_repeat_ngram_size": -1}, "from 0 to"),
    ({"no_repeat_ngram_size": None}, "from 0 to"),
    ({"min_new_tokens": -1}, "from 0 to"),
    ({"min_new_tokens": 9, "max_new_tokens": 8}, "more than max_new_tokens, which is 8"),
    ({"logprobs": -1}, "from 0 to"),
    ({"logprobs": True}, "from 0 to"),
    ({"logit_bias": {-1: 1.0}}, "from 0 to"),
    ({"logit_bias": {"3": 1.0}}, "'3'"),
    ({"logit_bias": {True: 1.0}}, "True"),
    ({"logit_bias": {3: float("nan")}}, "of token id 3 is nan"),
    ({"logit_bias": {3: float("-inf")}}, "from -10000 to 10000"),
    ({"logit_bias": {3: None}}, "from -10000 to 10000"),
    ({"logit_bias": [(3, 1.0), (3, 2.0)]}, "token id 3 twice"),
    ({"logit_bias": [3]}, "its bias"),
    ({"logit_bias": 3}, "{token id: bias}"),
    ({"logit_bias": None}, "{token id: bias}"),
    ({"banned_tokens": 3}, "a list of token ids"),
    ({"banned_tokens": "3"}, "a list of token ids"),
    ({"banned_tokens": [-3]}, "from 0 to"),
    ({"banned_tokens": [3.0]}, "3.0"),
    ({"banned_tokens": [[3, True]]}, "True"),
    ({"banned_tokens": [[]]}, "empty sequence"),
    ({"forced_tokens": [[3]]}, "[3]"),
    ({"forced_tokens": [2**31]}, "from 0 to"),
    ({"forced_tokens": {3: 4}}, "a list of token ids"),
    ({"stop": ["a", "x\ud800"]}, "half of a surrogate pair"),
    ({"stop": "\udc80"}, "half of a surrogate pair"),
    ({"overflow": "shfit"}, "one of stop, shift"),
    ({"overflow": None}, "one of stop, shift"),
    ({"overflow": np.array([1, 2])}, "one of stop, shift"),
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
    for sign in (1, -1):
        SamplingParams(
            min_p=(1 + sign) / 2,
            typical_p=1.0 if sign > 0 else 1e-300,
            repetition_penalty=100 if sign > 0 else 0.01,
            frequency_penalty=100 * sign,
            presence_penalty=100 * sign,
            no_repeat_ngram_size=2**31 - 1,
            logit_bias={0: 10000 * sign, 2**31 - 1: 0},
            min_new_tokens=3,
            max_new_tokens=3,
            logprobs=0,
        ).checked()
    assert SamplingParams().checked() == SamplingParams()


def test_checked_parameters_are_plain_python():
    asked = {
        "max_new_tokens": np.int64(3),
        "temperature": np.float32(0.5),
        "top_k": np.int32(2),
        "seed": np.uint64(2**64 - 1),
        "stop": "end",
        "deadline_s": np.float32(1.5),
        "min_p": np.float64(0.5),
        "no_repeat_ngram_size": np.int8(3),
        "logit_bias": {np.int64(9): np.float32(0.5), 2: 1},
        "banned_tokens": [np.int16(4), np.array([5, 6]), [7]],
        "forced_tokens": np.array([1, 2]),
        "logprobs": np.int64(5),
    }
    params = SamplingParams().changed(asked)
    assert params == SamplingParams(
        3,
        0.5,
        2,
        1.0,
        2**64 - 1,
        ("end",),
        1.5,
        min_p=0.5,
        no_repeat_ngram_size=3,
        logit_bias=((2, 1.0), (9, 0.5)),
        banned_tokens=(4, (5, 6), 7),
        forced_tokens=(1, 2),
        logprobs=5,
    )
    for field, value in zip(params._fields, params):
        assert type(value) is type(SPECIMEN[field]), field
    inner = [params.logit_bias[0][0], *params.banned_tokens[1], *params.forced_tokens]
    assert {type(token) for token in inner} == {int}
    assert {type(bias) for _, bias in params.logit_bias} == {float}
    assert params.checked() == params  # what was checked may be checked again


@pytest.mark.parametrize(
    "asked", [{"logit_bias": {50: 1}}, {"banned_tokens": [3, [1, 50]]}, {"forced_tokens": [50]}]
)
def test_an_id_beyond_the_vocabulary_is_refused_with_its_size(asked):
    params = SamplingParams().changed(asked)
    params.check_vocabulary(51)
    with pytest.raises(EdgeformerError) as caught:
        params.check_vocabulary(50)
    assert "token id 50" in str(caught.value) and "50 tokens: ids 0 to 49" in str(caught.value)
    assert next(iter(asked)) in str(caught.value)


def test_asking_for_one_parameter_leaves_the_others():
    assert SamplingParams(temperature=0.7, top_k=5).changed({"top_k": 9}) == SamplingParams(
        temperature=0.7, top_k=9
    )
