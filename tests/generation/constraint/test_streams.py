"""Streams of real tiny models whose answers must fit."""

import json
import re

import numpy as np
import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.__main__ import main
from edgeformer.generation.constraint import Constraints, wanted
from edgeformer.generation.sampling import Sampler
from tests import bundles
from tests.generation.constraint import ENGINES

REPEATS = {"type": "array", "items": {"enum": ["aaa", "aab"]}, "minItems": 6, "maxItems": 6}


def use(model, engine):
    rows = model.bundle.manifest.model["vocab_size"]
    model._constraints = Constraints(model.tokenizer, model._eos_ids, rows, engine)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def model(engine):
    with edgeformer.load(bundles.ROPE, threads=1) as loaded:
        use(loaded, engine)
        yield loaded


SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["x", "yy"]}, "n": {"type": "integer", "maximum": 99}},
    "required": ["a", "n"],
    "additionalProperties": False,
}


def started(model, regex):
    """The constraint alone, as a stream has it."""
    return model._constraints.start(wanted(regex, None), True)


@pytest.mark.parametrize(
    "asked", [{}, {"temperature": 1.0, "seed": 1}, {"repetition_penalty": 1.3}]
)
def test_an_answer_matches_its_regex_and_stops_where_nothing_may_follow(model, asked):
    answer = model.generate("the", regex="[a-c]{3,6}-[0-9]{4}", **asked)
    assert re.fullmatch("[a-c]{3,6}-[0-9]{4}", answer.text)
    assert answer.finish_reason == "stop"
    assert answer.tokens[-1] != 0  # no step was spent on an end token


def test_an_answer_that_may_end_ends_with_the_models_end_token(model):
    texts = set()
    for seed in range(40):
        answer = model.generate("the", regex="(ab)*", temperature=2.0, seed=seed, max_new_tokens=30)
        if answer.finish_reason == "stop":
            assert answer.tokens[-1] == 0
            assert re.fullmatch("(ab)*", answer.text)
            texts.add(answer.text)
    assert len(texts) > 2


def test_an_answer_is_json_by_its_schema(model):
    for seed in range(5):
        answer = model.generate("the", json_schema=SCHEMA, temperature=1.0, seed=seed)
        value = json.loads(answer.text)
        assert list(value) == ["a", "n"]
        assert value["a"] in ("x", "yy")
        assert isinstance(value["n"], int) and value["n"] <= 99


def test_a_limit_cuts_the_answer_and_says_so(model):
    answer = model.generate("the", json_schema=SCHEMA, max_new_tokens=3)
    assert answer.finish_reason == "length"
    with pytest.raises(ValueError):
        json.loads(answer.text)


def test_the_last_token_at_the_limit_is_a_stop(model):
    whole = model.generate("the", regex="abc[0-9]")
    again = model.generate("the", regex="abc[0-9]", max_new_tokens=len(whole.tokens))
    assert again == whole._replace(stats=again.stats)
    assert again.finish_reason == "stop"


def test_a_stop_string_still_ends_the_answer(model):
    answer = model.generate("the", regex="abc[0-9]d", stop="c")
    assert (answer.text, answer.finish_reason) == ("ab", "stop_string")


def test_what_is_allowed_keeps_its_share_of_the_probability(model):
    held = started(model, "[ab]+|c")
    params = SamplingParams(temperature=0.7)
    logits = np.random.RandomState(1).randn(280).astype(np.float32)
    ids, shares = Sampler(params, end_ids=[0], constraint=held).distribution(logits, [])
    assert 3 <= len(ids) < 20
    expected = np.exp(logits[ids].astype(np.float64) / 0.7)
    np.testing.assert_allclose(shares, expected / expected.sum(), rtol=1e-12)
    assert {model.tokenizer.decode([each]).strip("ab") for each in ids} == {"", "c"}


def test_a_token_that_ends_in_the_middle_of_a_character_may_be_taken(model):
    answer = model.generate("the", regex="(é|日|😀){5}", temperature=1.0, seed=2)
    assert re.fullmatch("(é|日|😀){5}", answer.text)


def test_an_end_is_found_without_any_end_token(model, engine):
    model._eos_ids, kept = frozenset(), model._eos_ids
    ready = model._constraints
    use(model, engine)
    try:
        answer = model.generate("the", regex="[ab]{4}")
    finally:
        model._eos_ids, model._constraints = kept, ready
    assert (len(answer.text), answer.finish_reason) == (4, "stop")


def test_two_streams_in_turns_keep_to_their_own_rules(model):
    first = model.stream("the", regex="a{9}")
    next(first)
    second = model.generate("the", regex="b{9}")
    assert second.text == "b" * 9


def test_characters_of_a_small_vocabulary_are_held_to_a_regex(engine):
    with edgeformer.load(bundles.LEARNED, threads=1) as model:
        use(model, engine)
        assert re.fullmatch("[ab]{5}", model.generate("the", regex="[ab]{5}").text)
        says = r"after 'ab' no token.*the regex asks|no text of this tokenizer's characters"
        with pytest.raises(EdgeformerError, match=says):
            model.generate("the", regex="ab[日一]")


@pytest.mark.parametrize(
    "fits, says",
    [
        ({"regex": "["}, "unclosed character class|without `]`"),
        ({"regex": "(?=a)b"}, "look-ahead|the group"),
        ({"regex": r"(a)\1"}, r"backreferences|escape .*1"),
        ({"json_schema": {"type": "strnig"}}, "strnig"),
        ({"json_schema": {"uniqueItems": True}}, "uniqueItems"),
        ({"json_schema": {"not": {}}}, r"\bnot\b"),
        ({"json_schema": {"type": "string", "format": "foo"}}, "format:? .?foo"),
        ({"json_schema": {"$ref": "#/$defs/x"}}, r"/\$defs/x"),
        ({"json_schema": {"$ref": "https://example.com/x"}}, "example.com"),
        ({"json_schema": {"type": "integer", "minimum": 3, "maximum": 2}}, "minimum|no text"),
    ],
)
def test_what_the_engine_cannot_hold_to_is_an_error_before_the_first_token(model, fits, says):
    with pytest.raises(EdgeformerError, match=says) as raised:
        model.stream("the", **fits)
    assert "\n" not in str(raised.value)


def test_masks_follow_an_answer_that_takes_tokens_back(model):
    ids = model.tokenizer.encode("abcdab")
    follows = started(model, "(ab|cd){3}")
    for known in [ids[:1], ids[:3], ids[:2], ids, [], ids[:3], model.tokenizer.encode("cd")]:
        fresh = started(model, "(ab|cd){3}")
        assert np.array_equal(follows.mask(known), fresh.mask(known))
        assert follows.may_end(known) == fresh.may_end(known) == (known == ids)
        assert follows.ended(known) == (known == ids)


def test_an_answer_that_does_not_fit_is_refused(model):
    follows = started(model, "ab+")
    with pytest.raises(EdgeformerError, match=r"token \d+ cannot follow 'a'"):
        follows.mask(model.tokenizer.encode("ac"))
    assert follows.mask(model.tokenizer.encode("ab")).any()


def test_forced_tokens_and_a_regex_that_refuses_them_are_an_error(model):
    forced = model.tokenizer.encode("z")
    with pytest.raises(EdgeformerError, match="forced_tokens"):
        model.generate("the", regex="ab", forced_tokens=forced)


def test_the_command_line_holds_an_answer_to_a_regex_or_a_schema_file(tmp_path, capsys):
    assert main(["generate", bundles.ROPE, "the", "--regex", "[0-9]{4}"]) == 0
    assert re.fullmatch("[0-9]{4}\n", capsys.readouterr().out)
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA), encoding="utf-8")
    assert main(["generate", bundles.ROPE, "the", "--json-schema", str(schema)]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"a", "n"}


@pytest.mark.parametrize(
    "content, says",
    [
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"tipe": 1}', "'tipe'"),
        (None, "No such file"),
    ],
)
def test_a_schema_file_that_is_none_ends_with_status_2(tmp_path, capsys, content, says):
    schema = tmp_path / "schema.json"
    if content is not None:
        schema.write_bytes(content)
    assert main(["generate", bundles.ROPE, "the", "--json-schema", str(schema)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert says in output.err
    assert "Traceback" not in output.err


@pytest.mark.parametrize("asked", [{}, {"temperature": 1.0, "seed": 3}])
def test_a_draft_changes_nothing_of_what_fits(model, asked):
    drafted = 0
    for fits in ({"regex": "(abc |def ){20}"}, {"json_schema": REPEATS}):
        plain = model.generate("abc def abc", draft="off", **fits, **asked)
        draft = model.generate("abc def abc", draft="lookup", **fits, **asked)
        assert draft.tokens == plain.tokens
        assert draft.finish_reason == plain.finish_reason
        drafted += draft.stats.drafted
    assert drafted > 0 or asked


def test_answers_of_one_prompt_each_fit(model):
    answers = model.answers("the", n=3, temperature=1.0, seed=5, regex="[a-f]{4}[0-9]{2}")
    assert len({each.text for each in answers}) > 1
    for each in answers:
        assert re.fullmatch("[a-f]{4}[0-9]{2}", each.text)


def test_an_end_token_with_a_text_writes_none_in_an_answer(model, engine):
    (end,) = model.tokenizer.encode("a")
    follows = Constraints(model.tokenizer, frozenset([end]), 280, engine).start(
        wanted("[ab]{2}", None), True
    )
    assert not follows.mask([])[end]
    assert follows.mask([]).any()
