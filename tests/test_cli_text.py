"""Hostile prompts, answers and options, from the command line on; and a deadline."""

import json
import os
import struct
import subprocess
import sys
from time import perf_counter

import onnxruntime
import pytest

import edgeformer
from edgeformer import EdgeformerError
from edgeformer.cli import console
from tests import bundles
from tests.test_cli import SLOW, environment, run

FUSED_RUNS = int(onnxruntime.__version__.split(".")[1]) >= 24
END = "<|endoftext|>"
SHORT = ["--max-new-tokens", "5"]
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"  # one picture, 25 bytes
TEXTS = {
    "emoji family": FAMILY + " and " + FAMILY + "\U0001f3fd",
    "flag and skin": "\U0001f1e9\U0001f1ea\U0001f44b\U0001f3ff\u2764\ufe0f",
    "right to left": "\u200f\u05e9\u05c1\u05b8\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628 1\u200e",
    "overridden direction": "\u202eabc\u202c \u2067\u05d0\u2069",
    "stacked marks": "Z\u0351\u036b\u0343\u036a\u0302A\u0334\u0335\u031e",
    "controls": "a\x00b\x1b[31mc\x7f\r\n\t\ufeff\ufffd",
    "beyond": "\U0010ffff\U0001d54f\u2028\u0085",
}


@pytest.fixture(scope="module")
def model():
    with edgeformer.load(bundles.ROPE, threads=1) as loaded:
        yield loaded


def generate(*arguments, **options):
    return run("generate", bundles.ROPE, *arguments, **options)


def refused(found, *named):
    status, out, err = found
    assert (status, out) == (2, b"")
    assert b"Traceback" not in err
    assert err.count(b"\n") <= 2
    for each in named:
        assert each in err


def test_an_empty_prompt_starts_from_the_end_token(model, tmp_path):
    assert model.prompt_ids("") == [0]
    wanted = model.generate("", max_new_tokens=5).text.encode("utf-8") + b"\n"
    for found in (generate("", *SHORT), generate("-", *SHORT), generate("-", *SHORT, stdin=b"\n")):
        assert found[:2] == (0, wanted)
    path = bundles.copied(bundles.ROPE, tmp_path)
    bundles.edited(path, lambda data: data.update(eos_token_ids=[]))
    refused(run("generate", path, ""), b"the prompt is empty")
    refused(generate("", "--ids"), b"no tokens")


def test_special_tokens_that_are_typed_are_text_and_as_ids_they_are_tokens(model):
    typed = model.prompt_ids(END * 3)
    assert 0 not in typed
    for words, ids in [([END * 3], typed), (["0 0 0", "--ids"], [0, 0, 0])]:
        wanted = model.generate(ids, max_new_tokens=5)
        status, out, _ = generate(*words, *SHORT, "--json")
        assert (status, json.loads(out.decode("ascii"))["tokens"]) == (0, list(wanted.tokens))


@pytest.mark.parametrize(
    "text",
    ["a", "\u96e8"]
    + [pytest.param(text, marks=pytest.mark.slow) for text in ("the cat ", FAMILY, " ", "\n")],
)
def test_a_prompt_of_100000_characters_is_refused_with_its_tokens_and_soon(text):
    raw = (text * (100000 // len(text) + 1))[:100000].encode("utf-8")
    started = perf_counter()
    refused(generate("-", stdin=raw + b"\n"), b"tokens, the bundle's capacity is 100")
    assert perf_counter() - started < 30


def test_a_text_of_100000_characters_is_scored_in_windows():
    words = ["score", bundles.ROPE, "-", "--overlap", "1"]
    status, out, err = run(*words, stdin=b"the cat and the other " * 4546)
    assert (status, b"Traceback" in err) == (0, False)
    assert out.startswith(b"perplexity ")


@pytest.mark.parametrize("verb", ["generate", "score"])
@pytest.mark.parametrize(
    "raw, named",
    [
        (b"caf\xe9 x", b"0xe9 at offset 3"),
        (b"ab\xed\xa0\x80", b"0xed at offset 2"),  # a lone surrogate in UTF-8's clothes
        (b"\xf0\x9f\x91", b"0xf0 at offset 0"),  # the half of an emoji
        (b"\xff\xfeh\x00i\x00", b"0xff at offset 0"),  # UTF-16
        (b"\xc0\x80", b"0xc0 at offset 0"),
    ],
)
def test_bytes_that_are_no_utf8_are_refused_by_place(verb, raw, named):
    refused(run(verb, bundles.ROPE, "-", stdin=raw), named)


@pytest.mark.parametrize("verb", ["generate", "score", "prefix"])
def test_more_than_16_mb_of_stdin_are_refused_at_once(verb, tmp_path):
    more = ["-o", str(tmp_path / "rows")] if verb == "prefix" else []
    raw = b"a" * (console.MOST_BYTES + 1)
    refused(run(verb, bundles.ROPE, "-", *more, stdin=raw), b"more than 16777216 bytes")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\ud83d x \udc68"])
def test_lone_surrogates_are_refused_by_number(model, text):
    for ask in (
        lambda: model.stream(text),
        lambda: model.score("x", after=text),
        lambda: model.beams(text),
        lambda: model.answers(text, n=2, temperature=1.0),
        lambda: model.stream("x", forced_tokens=text),
        lambda: model.stream("x", stop=text),
    ):
        with pytest.raises(EdgeformerError, match="half of a surrogate pair"):
            ask()


@pytest.mark.parametrize("name", list(TEXTS))
def test_hard_text_comes_out_as_it_went_in_and_in_whole_characters(model, name):
    text = TEXTS[name]
    ids = model.tokenizer.encode(text)
    asked = {"forced_tokens": ids, "max_new_tokens": len(ids)}
    steps = list(model.stream(text, **asked))
    assert "".join(step.text for step in steps) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in step.text for step in steps)
    count = str(len(ids))
    words = ["-", "--force", ",".join(map(str, ids)), "--max-new-tokens", count]
    status, out, _ = generate(*words, stdin=text.encode("utf-8"))
    assert (status, out) == (0, text.encode("utf-8") + b"\n")


def test_every_write_of_the_command_ends_with_a_whole_character(model):
    text = TEXTS["emoji family"]
    ids = model.tokenizer.encode(text)
    assert len(ids) > 2 * len(text)
    child = subprocess.Popen(
        [sys.executable, "-u", "-c", SLOW % 0.01, "generate", bundles.ROPE, "x"]
        + ["--force", ",".join(map(str, ids)), "--max-new-tokens", str(len(ids))],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    pieces = iter(lambda: os.read(child.stdout.fileno(), 4096), b"")
    decoded = [piece.decode("utf-8") for piece in pieces]
    child.wait(60)
    child.stdout.close()
    assert "".join(decoded) == text + "\n"
    assert len(decoded) > 10


def test_a_stop_string_that_is_the_whole_answer_leaves_nothing(model):
    answer = model.generate("the cat", max_new_tokens=5)
    assert len(answer.text) > 4
    status, out, err = generate("the cat", *SHORT, "--stop", answer.text)
    assert (status, out) == (0, b"\n")
    assert b"stop_string: " in err
    stopped = model.generate("the cat", max_new_tokens=50, stop=answer.text)
    assert (stopped.text, stopped.finish_reason) == ("", "stop_string")


@pytest.mark.parametrize("more", ["x", "\ufffd", "y" * 100000])
def test_a_stop_string_that_never_comes_takes_nothing_away(model, more):
    answer = model.generate("the cat", max_new_tokens=9)
    steps = list(model.stream("the cat", max_new_tokens=9, stop=answer.text + more))
    assert "".join(step.text for step in steps) == answer.text
    assert [step.text for step in steps[:-1]] == [""] * 8  # all of it might have been one
    assert steps[-1].finish_reason == answer.finish_reason


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_a_seed_of_64_bits_works_and_gives_its_own_text(model, seed):
    asked = {"temperature": 1.5, "max_new_tokens": 5, "seed": seed}
    wanted = model.generate("the cat", **asked)
    assert wanted.tokens != model.generate("the cat", **dict(asked, seed=seed ^ 2**40)).tokens
    status, out, _ = generate("the cat", *SHORT, "--temperature", "1.5", "--seed", str(seed))
    assert (status, out) == (0, wanted.text.encode("utf-8") + b"\n")


@pytest.mark.parametrize("seed", ["-1", str(2**64)])
def test_a_seed_beyond_64_bits_is_refused(seed):
    refused(generate("the", "--seed", seed), b"18446744073709551615")


@pytest.mark.parametrize("value", ["nan", pytest.param("inf", marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", [bundles.ROPE] + ([bundles.FUSED] if FUSED_RUNS else []))
def test_a_model_whose_logits_are_no_numbers_is_an_error_and_says_nothing(tmp_path, source, value):
    path = bundles.copied(source, tmp_path)
    weights = bytearray(bundles.content_of(path, "weights.bin"))
    for offset in range(0, len(weights) - 3, 4):
        struct.pack_into("<f", weights, offset, float(value))
    bundles.replace_file(path, "weights.bin", bytes(weights))
    sampled = ["--temperature", "1", "--seed", "1"]
    for words in (
        ["generate", path, "the cat"],
        ["generate", path, "the cat", "--repetition-penalty", "1.2"],
        ["generate", path, "the cat", *sampled],
        ["generate", path, "the cat", "-n", "2", *sampled],
        ["generate", path, "the cat", "--beams", "2"],
        ["generate", path, "the cat", "--json", "--logprobs", "2"],
        ["score", path, "the cat and the other"],
    ):
        status, out, err = run(*words)
        assert (status, out.strip()) == (2, b""), words
        assert b"run: python -m edgeformer check BUNDLE" in err
        assert b"Traceback" not in err


def test_a_deadline_ends_a_slow_answer_with_status_0():
    child = subprocess.run(
        [
            sys.executable,
            "-c",
            SLOW % 0.05,
            "generate",
            bundles.LEARNED,
            "the",
            "--deadline",
            "0.3",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=60,
    )
    assert child.returncode == 0
    assert b"\ndeadline: " in child.stderr
    assert 1 <= len(child.stdout) < 12  # of 30 characters
