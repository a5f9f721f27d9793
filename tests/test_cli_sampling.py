"""The options of `generate` that say how tokens are chosen."""

import json

import pytest

import edgeformer
from edgeformer import EdgeformerError, SamplingParams
from edgeformer.__main__ import main
from edgeformer.cli import sampling
from edgeformer.cli.generate import parser
from edgeformer.text.words import with_ids
from tests import bundles


@pytest.mark.parametrize(
    "options, asked",
    [
        (["--min-p", "0.3", "--temperature", "2"], {"min_p": 0.3, "temperature": 2.0}),
        (["--typical-p", "0.3", "--temperature", "2"], {"typical_p": 0.3, "temperature": 2.0}),
        (["--repetition-penalty", "1.5"], {"repetition_penalty": 1.5}),
        (["--frequency-penalty", "-2", "--presence-penalty", "5"], None),
        (["--no-repeat-ngram", "1"], {"no_repeat_ngram_size": 1}),
        (
            ["--logit-bias", "30=-3.5", "--logit-bias", "31=90"],
            {"logit_bias": {30: -3.5, 31: 90}},
        ),
        (["--ban", "30", "--ban", "31,32"], {"banned_tokens": [30, [31, 32]]}),
        (["--force", "30,31 32"], {"forced_tokens": [30, 31, 32]}),
        (["--min-new-tokens", "9"], {"min_new_tokens": 9}),
    ],
)
def test_each_rule_has_an_option(options, asked):
    asked = asked or {"frequency_penalty": -2.0, "presence_penalty": 5.0}
    found = sampling.asked(parser().parse_args([bundles.ROPE, "x", *options]))
    assert SamplingParams().changed(found) == SamplingParams().changed(asked)


def test_rules_reach_a_greedy_stream(capsys):
    asked = {"forced_tokens": [30, 31], "repetition_penalty": 1.3, "max_new_tokens": 12}
    with edgeformer.load(bundles.ROPE) as model:
        plain = model.generate("the cat", max_new_tokens=12).tokens
        asked["banned_tokens"] = [plain[2]]
        wanted = model.generate("the cat", **asked).tokens
    options = ["--force", "30,31", "--ban", str(plain[2]), "--repetition-penalty", "1.3", "--json"]
    assert main(["generate", bundles.ROPE, "the cat", "--max-new-tokens", "12", *options]) == 0
    tokens = json.loads(capsys.readouterr().out)["tokens"]
    assert tokens == list(wanted)
    assert tokens[:2] == [30, 31]
    assert plain[2] not in tokens and tokens != list(plain)


@pytest.mark.parametrize(
    "options, named",
    [
        (["--min-p", "2"], "min_p is 2.0"),
        (["--logit-bias", "3"], "as in: 17=-2.5"),
        (["--logit-bias", "3=nan"], "as in: 17=-2.5"),
        (["--ban", ""], "--ban 17,4"),
        (["--ban", "a"], "--ban 17,4"),
        (["--force", "-3"], "--force 17,4"),
        (["--force", "3", "--force-text", "a"], "one beginning"),
        (["--force-text", ""], "no characters"),
        (["--ban-text", " "], "no characters"),
        (["--force", "99999"], "99999, but the vocabulary has"),
    ],
)
def test_a_rule_that_makes_no_sense_is_2_and_named(capsys, options, named):
    assert main(["generate", bundles.ROPE, "x", *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and named in err


def test_texts_are_forced_and_banned_as_the_tokenizer_writes_them(capsys):
    with edgeformer.load(bundles.ROPE) as model:
        encode = model.tokenizer.encode
        plain = model.generate("the cat", max_new_tokens=12)
        word = next(text for text in plain.text.split() if len(text) > 2)
        sequences = [encode(word), encode(" " + word)]
        forced = encode(" then it was")
        asked = {"forced_tokens": forced, "banned_tokens": sequences, "max_new_tokens": 12}
        wanted = model.generate("the cat", **asked)
        asked.update(forced_tokens=" then it was", banned_tokens=word)
        assert model.generate("the cat", **asked).tokens == wanted.tokens
    options = ["--force-text", " then it was", "--ban-text", word, "--max-new-tokens", "12"]
    assert main(["generate", bundles.ROPE, "the cat", *options]) == 0
    out = capsys.readouterr().out
    assert out == wanted.text + "\n"
    assert out.startswith(" then it was") and word in plain.text and word not in out


def test_a_text_needs_a_tokenizer():
    for asked in ({"banned_tokens": ["a"]}, {"forced_tokens": "a"}):
        with pytest.raises(EdgeformerError) as caught:
            with_ids(asked, None)
        assert "has the text 'a'" in str(caught.value)
    assert with_ids({"banned_tokens": [3, (4, 5)]}, None) == {"banned_tokens": [3, (4, 5)]}
