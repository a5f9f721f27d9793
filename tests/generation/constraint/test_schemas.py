"""Two hundred schemas: what a random model says under each of them validates."""

import collections
import datetime
import json
import re

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from edgeformer import SamplingParams
from edgeformer.bundle import Bundle
from edgeformer.generation.constraint import Constraints, wanted
from edgeformer.generation.stream import Stream
from edgeformer.text import open_tokenizer
from tests import bundles
from tests.generation.constraint import ENGINES
from tests.generation.constraint.random_model import RandomModel
from tests.generation.constraint.schemas import COUNT, schema_of

MOST_TOKENS = 4000
TIME = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
# jsonschema leaves these to packages that are not here.
checker = FormatChecker(["email", "ipv4", "ipv6", "uuid", "date"])


@checker.checks("time")
def is_time(text):
    return re.fullmatch(TIME, text, re.I) is not None


@checker.checks("date-time")
def is_date_time(text):
    day, time = re.split("[Tt]", text)
    return bool(datetime.date(*map(int, day.split("-")))) and is_time(time)


@checker.checks("duration")
def is_duration(text):
    parts = r"P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+S)?)?)"
    return re.fullmatch(parts, text) is not None


@checker.checks("hostname")
def is_hostname(text):
    label = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    return len(text) < 254 and re.fullmatch(rf"{label}(\.{label})*", text) is not None


@pytest.fixture(scope="module")
def tokenizer():
    return open_tokenizer(Bundle.open(bundles.ROPE))


@pytest.fixture(scope="module", params=ENGINES)
def constraints(request, tokenizer):
    return Constraints(tokenizer, frozenset([0]), tokenizer.vocab_size, request.param)


def answer(constraints, tokenizer, index, temperature):
    """(text, finish reason) by a random model that likes quotes, so that strings end."""
    likes = dict.fromkeys(tokenizer.encode('"'), 4.0)
    params = SamplingParams().changed(
        {"temperature": temperature, "seed": index, "logit_bias": likes}
    )
    constraint = constraints.start(wanted(None, schema_of(index)), True)
    model = RandomModel(tokenizer.vocab_size, index)
    text = tokenizer.stream(after_text=True)
    ends = frozenset([0])
    stream = Stream(model, [5], params, ends, MOST_TOKENS, 16, text, constraint=constraint)
    return "".join([step.text for step in stream]), stream.finish_reason


def check(constraints, tokenizer, indexes):
    """Every answer ends by itself and validates; the texts."""
    texts = []
    for index in indexes:
        validator = Draft202012Validator(schema_of(index), format_checker=checker)
        for temperature in (0.0, 1.0):
            text, reason = answer(constraints, tokenizer, index, temperature)
            assert reason == "stop", (index, reason, text[-80:])
            validator.validate(json.loads(text))
            texts.append(text)
    return texts


def test_the_schemas_are_schemas_of_many_kinds():
    words = collections.Counter()
    for index in range(0, COUNT, 4):
        Draft202012Validator.check_schema(schema_of(index))
        words.update(set(re.findall(r'"([$a-zA-Z]+)": ', json.dumps(schema_of(index)))))
    words_wanted = (
        "enum const pattern format minLength maxLength minimum exclusiveMaximum anyOf oneOf items "
        "prefixItems minItems maxItems properties required additionalProperties $ref $defs"
    )
    for word in words_wanted.split():
        assert words[word] >= 5, word


@pytest.mark.parametrize("level", range(5))
def test_answers_under_some_schemas_of_each_level_validate(constraints, tokenizer, level):
    texts = check(constraints, tokenizer, range(40 * level, 40 * level + 40, 20))
    assert len(set(texts)) > 2


@pytest.mark.slow
def test_answers_under_each_of_200_schemas_validate(constraints, tokenizer):
    texts = check(constraints, tokenizer, range(COUNT))
    assert len(texts) == 400
    assert len(set(texts)) > 300
    assert sum(map(len, texts)) > 20000
