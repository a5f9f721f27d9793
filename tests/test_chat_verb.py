"""`edgeformer chat` through pipes; at a terminal: test_chat_terminal.py."""

import argparse
import io
import json
import re
import signal
import subprocess
import sys

import pytest

import edgeformer
from edgeformer.__main__ import main
from edgeformer.cli import chat, fitting, generate, sampling
from tests import bundles
from tests.generation.test_conversation import bundle_of
from tests.test_cli import SLOW, environment, run

FOUR = ("--max-new-tokens", "4")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return endless(tmp_path_factory.mktemp("chat"))


def endless(folder):
    """A bundle of characters and 32 rows; no token ends an answer."""
    made = bundle_of(folder)
    bundles.edited(made, lambda data: data.update(eos_token_ids=[]))
    return made


@pytest.fixture
def talk(monkeypatch, capfd):
    """(status, stdout, stderr) of a chat whose turns come through a pipe."""

    def talked(path, lines, *options):
        raw = io.BytesIO("".join(lines).encode("utf-8"))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, "ascii"))
        status = main(["chat", path, "--threads", "1", *options])
        out, err = capfd.readouterr()
        return status, out, err

    return talked


def library(path, texts, system=None, **asked):
    """The answers that the library gives, and its conversation."""
    with edgeformer.load(path, threads=1) as model:
        talked = model.chat(system)
        answers = ["".join(step.text for step in talked.send(text, **asked)) for text in texts]
        return answers, talked


def test_each_line_of_a_pipe_is_a_turn_and_only_answers_are_on_stdout(talk, path):
    answers, _ = library(path, ["hi", "ho"], max_new_tokens=4)
    assert answers[0] != answers[1]
    status, out, err = talk(path, ["hi\n", "\n", "ho"], *FOUR)
    assert (status, out) == (0, "".join(answer + "\n" for answer in answers)), err
    told = err.splitlines()
    assert told[0].startswith("backend: ort")
    assert [line.split(",")[0] for line in told[1:]] == [
        "length: 5 prompt + 4 new tokens",
        "length: 15 prompt + 4 new tokens",
    ]
    assert "8 of the prompt reused" in told[2]
    assert ">" not in out + err


def test_sampling_options_and_system_reach_the_answers(talk, path):
    asked = {"max_new_tokens": 4, "temperature": 2.0, "top_k": 30, "seed": 2**63}
    answers, _ = library(path, ["hi", "ho"], "be", **asked)
    options = ["--temperature", "2", "--top-k", "30", "--seed", str(2**63), "--system", "be"]
    status, out, _ = talk(path, ["hi\n", "ho\n"], *FOUR, *options)
    assert (status, out.splitlines()) == (0, answers)
    assert answers != library(path, ["hi", "ho"], "be", max_new_tokens=4)[0]


def test_both_verbs_take_the_same_sampling_options():
    made = argparse.ArgumentParser(add_help=False)
    sampling.add_options(made)
    fitting.add_options(made)
    shared = set(re.findall(r"--[a-z][\w-]*", made.format_usage()))
    assert {"--temperature", "--deadline", "--stop", "--regex"} <= shared
    for verb in (chat, generate):
        assert shared <= set(re.findall(r"--[a-z][\w-]*", verb.parser().format_usage()))


def test_drafts_change_no_answer_and_their_stats_are_told(talk, path):
    always = ("--logit-bias", "70=60")  # a loop, which lookup drafts
    plain = talk(path, ["hi\n"], "--max-new-tokens", "20", *always)
    status, out, err = talk(
        path, ["hi\n", "/stats\n"], "--max-new-tokens", "20", "--draft", "lookup", *always
    )
    assert (status, out) == (0, plain[1]), err
    assert "of the drafted tokens accepted" in err or " drafted" in err, err
    assert "draft" not in plain[2]


def test_what_cannot_draft_ends_the_chat_before_its_first_turn(talk, path, tmp_path):
    status, out, err = talk(path, ["hi\n"], "--draft", str(tmp_path / "none"))
    assert (status, out) == (2, "")
    assert "no file or bundle" in err
    assert "backend: " not in err


def test_a_precision_that_rounds_is_refused_before_the_first_turn(talk, path, monkeypatch):
    load = edgeformer.load

    def rounding(*arguments, **options):
        model = load(*arguments, **options)
        model.backend.precision = "n4"
        return model

    monkeypatch.setattr(edgeformer, "load", rounding)
    status, out, err = talk(path, ["hi\n"], "--draft", "lookup", "--temperature", "0")
    assert (status, out) == (2, "")
    assert "draw with a temperature" in err
    assert "backend: " not in err


def test_a_turn_of_several_lines(talk, path, tmp_path):
    file = str(tmp_path / "talk")
    lines = ["a\\\n", "b\\\n", "c\n", '"""\n', "d\n", "\n", 'e"""\n', '"""f"""\n', "g\r\n", "h\\"]
    status, out, err = talk(path, [*lines[:-1], "/save %s\n" % file], "--max-new-tokens", "1")
    assert status == 0, err
    assert out.count("\n") == 4
    with open(file, encoding="utf-8") as opened:
        messages = json.load(opened)["messages"]
    asked = [message["content"] for message in messages if message["role"] == "user"]
    assert asked == ["a\nb\nc", "d\n\ne", "f", "g"]
    assert talk(path, ["x\\"], "--max-new-tokens", "1")[0] == 0


def test_commands_through_a_pipe(talk, path, tmp_path):
    file = str(tmp_path / "a talk")
    answers, talked = library(path, ["hi", "/x"], "be", max_new_tokens=4)
    lines = ["/system be\n", "hi\n", "zz\n", "/undo\n", "//x\n", "/save %s\n" % file, "/stats\n"]
    status, out, err = talk(
        path, [*lines, "/reset\n", "hi\n", "/system\n", "/exit\n", "no\n"], *FOUR
    )
    assert status == 0, err
    assert [out.splitlines()[index] for index in (0, 2, 3)] == [*answers, answers[0]]
    assert len(out.splitlines()) == 4
    assert "system: be" in err
    assert "taken back: 'zz'" in err
    with open(file, encoding="utf-8") as opened:
        assert json.load(opened) == {"format": 1, "messages": talked.messages}
    told = talk(path, ["/load %s\n" % file, "/rewind 2\n", "hi\n", "/help\n"], *FOUR)
    assert told[:2] == (0, answers[0] + "\n")
    assert "4 messages are from" not in told[2]
    assert "5 messages are from" in told[2]
    assert "/system TEXT" in told[2]
    assert talk(path, ["/undo\n", "hi\n"], "--load", file, *FOUR, "--system", "be")[0] == 0


@pytest.mark.parametrize(
    "lines, named",
    [
        (["/nothing\n"], "no command is called /nothing"),
        (["/undo\n"], "0 turns; 1 cannot"),
        (["/undo x\n"], "not 'x'"),
        (["/save\n"], "name of a file"),
        (["/load none/there\n"], "cannot be read"),
        (['"""\n', "a\n"], "has no end"),
        (["x" * 40 + "\n"], "43 tokens, the bundle's capacity is 32"),
        (["雨\n"], "雨"),
    ],
)
def test_in_a_pipe_an_error_ends_the_chat_with_2(talk, path, lines, named):
    status, out, err = talk(path, [*lines, "hi\n"], *FOUR)
    assert (status, out) == (2, "")
    assert named in err
    assert "Traceback" not in err


def test_bytes_that_are_no_utf8_are_refused(path):
    status, out, err = run("chat", path, stdin=b"caf\xe9 x\n")
    assert (status, out) == (2, b"")
    assert b"0xe9 at offset 3" in err


def test_a_model_without_a_template_is_sent_to_generate(talk):
    status, out, err = talk(bundles.LEARNED, ["hi\n"])
    assert (status, out) == (2, "")
    assert "no chat template" in err
    assert "python -m edgeformer generate %s TEXT" % bundles.LEARNED in err


def test_what_is_left_out_of_a_full_context_is_said_on_stderr(talk, path):
    status, out, err = talk(path, ["abc\n"] * 4, *FOUR)
    assert status == 0
    assert len(out.splitlines()) == 4
    said = [line for line in err.splitlines() if "context is full" in line]
    assert len(said) == 1
    assert "(32 rows): the first 6 messages are left out" in said[0]


def test_ctrl_c_ends_a_chat_that_reads_a_pipe(path):
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW % 0.1, "chat", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    child.stdin.write(b"hi\nho\n")
    child.stdin.flush()
    first = child.stdout.read(1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (len(first), child.returncode) == (1, 130)
    assert b"cancelled: " in err
    assert b"Traceback" not in err
    assert out.count(b"\n") == 1
