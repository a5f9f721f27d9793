"""`edgeformer chat` as a child process: through pipes, and at a real terminal."""

import argparse
import errno
import importlib.util
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

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
    """Characters and 32 rows; no token ends an answer."""
    made = bundle_of(tmp_path_factory.mktemp("chat"))
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


class Terminal:
    """A chat at a terminal of its own, whose keys are bytes."""

    def __init__(self, path, *options, **more):
        self.master, slave = pty.openpty()
        words = [sys.executable, "-c", SLOW % more.pop("pause", 0), "chat", path, *options]
        file = more.pop("stdout", None)
        out = slave if file is None else os.open(file, os.O_WRONLY | os.O_CREAT)
        self.child = subprocess.Popen(
            words,
            stdin=slave,
            stdout=out,
            stderr=slave,
            close_fds=True,
            env=environment(TERM="dumb", **more),
            preexec_fn=take_terminal,
        )
        os.close(slave)
        self.seen = ""
        self.wait_for("> ")

    def wait_for(self, text, seconds=30):
        """Read until this stands behind what was waited for before; all that was read for it."""
        end = time.time() + seconds
        while text not in self.seen:
            ready = select.select([self.master], [], [], max(0, end - time.time()))[0]
            assert ready, "%r did not come; there is %r" % (text, self.seen)
            try:
                part = os.read(self.master, 4096)
            except OSError as error:  # Linux: the child has ended
                assert error.errno == errno.EIO
                part = b""
            assert part, "%r did not come before the end; there is %r" % (text, self.seen)
            self.seen += part.decode("utf-8", "replace").replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before

    def keys(self, keys):
        os.write(self.master, keys)

    def ended(self):
        """The status, once it has ended by itself."""
        status = self.child.wait(30)
        os.close(self.master)
        return status

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()


def take_terminal():
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_ctrl_c_stops_the_answer_and_not_the_program(path, tmp_path):
    file = str(tmp_path / "talk")
    begun = library(path, ["hi"], max_new_tokens=2)[0][0]
    with Terminal(path, pause=0.2) as terminal:
        terminal.keys(b"hi\n")
        terminal.wait_for("hi\n" + begun)
        terminal.keys(b"\x03")
        shown = begun + terminal.wait_for("(cancelled)")
        terminal.wait_for("> ")
        terminal.keys(b"/stats\n")
        assert " new tokens" in terminal.wait_for("> ")
        terminal.keys(b"half a line")
        terminal.wait_for("half a line")
        terminal.keys(b"\x03")  # at the mark it drops the line
        terminal.wait_for("> ")
        terminal.keys(b"/nothing\n")
        assert "error: no command is called /nothing" in terminal.wait_for("> ")
        terminal.keys(b"/save %s\n" % file.encode("utf-8"))
        terminal.wait_for("2 messages are in")
        terminal.wait_for("> ")
        terminal.keys(b"\x04")
        assert terminal.ended() == 0
    with open(file, encoding="utf-8") as opened:
        messages = json.load(opened)["messages"]
    assert messages[0] == {"role": "user", "content": "hi"}
    assert 2 <= len(messages[1]["content"]) < 20
    assert shown.startswith(messages[1]["content"])


def test_at_a_terminal_drafts_change_no_answer(path):
    always = ("--max-new-tokens", "20", "--logit-bias", "70=60")
    shown = []
    for draft in ("off", "lookup"):
        with Terminal(path, "--draft", draft, *always) as terminal:
            terminal.keys(b"hi\n")
            terminal.wait_for("hi\n")
            shown.append(terminal.wait_for("> "))
            terminal.keys(b"/stats\n")
            assert ("draft" in terminal.wait_for("> ")) == (draft == "lookup")
            terminal.keys(b"\x04")
            assert terminal.ended() == 0
    assert shown[0] == shown[1]


def test_ctrl_c_in_the_instant_in_which_the_mark_appears_is_not_slept_through(path):
    with Terminal(path) as terminal:
        for _ in range(60):
            terminal.keys(b"\x03")
            terminal.wait_for("> ", seconds=10)
        terminal.keys(b"\x04")
        assert terminal.ended() == 0


def test_ctrl_c_over_and_over_ends_lines_and_answers_and_not_the_chat(path, tmp_path):
    """As from a key that is held down, and faster: while the line is read, while it is given up,
    and while an answer ends."""
    for options in ({}, {"stdout": str(tmp_path / "out")}):
        with Terminal(path, **options) as terminal:
            for pause in (0, 0.001, 0.01, 0.03, 0.06):
                for press in range(30):
                    terminal.keys(b"hi\n\x03" if press % 10 == 9 else b"\x03")
                    time.sleep(pause)
            time.sleep(0.3)
            terminal.keys(b"\x15\n/undo 99\n")
            terminal.wait_for("99 cannot be taken back")
            terminal.keys(b"\x04")
            assert terminal.ended() == 0


@pytest.mark.skipif(importlib.util.find_spec("readline") is None, reason="there is no readline")
def test_a_line_can_be_edited_and_called_back(path, tmp_path):
    file = str(tmp_path / "talk")
    with Terminal(path, "--max-new-tokens", "1", LC_ALL="C") as terminal:
        terminal.keys(b"hx\x7fi\n")
        terminal.wait_for("> ")
        terminal.keys(b"b\x1b[Da\n")  # to the left
        terminal.wait_for("> ")
        terminal.keys(b"\x10\x10!\n")  # the line before the last one, and more
        terminal.wait_for("> ")
        terminal.keys("é\n".encode("utf-8"))
        terminal.wait_for("> ")
        terminal.keys(b"/system a\tb\n")
        assert "system: a\tb" in terminal.wait_for("> ")
        terminal.keys(b"/system s\n")
        terminal.wait_for("> ")
        terminal.keys(b"c\\\n")
        terminal.wait_for(". ")
        terminal.keys(b"d\n")
        terminal.wait_for("> ")
        terminal.keys(b"/save %s\n" % file.encode("utf-8"))
        terminal.wait_for("messages are in")
        terminal.wait_for("> ")
        terminal.keys(b"\x04")
        assert terminal.ended() == 0
    with open(file, encoding="utf-8") as opened:
        messages = json.load(opened)["messages"]
    asked = [message["content"] for message in messages if message["role"] == "user"]
    assert asked == ["hi", "ab", "hi!", "é", "c\nd"]


def test_marks_are_not_on_a_stdout_that_is_no_terminal(path, tmp_path):
    answers, _ = library(path, ["hi"], max_new_tokens=4)
    master, slave = pty.openpty()
    out = tmp_path / "out"
    with open(str(out), "wb") as opened:
        child = subprocess.Popen(
            [sys.executable, "-m", "edgeformer", "chat", path, *FOUR],
            stdin=slave,
            stdout=opened,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        os.close(slave)
        os.write(master, b"hi\n\x04")
        err = child.communicate(timeout=30)[1].decode("utf-8")
        os.close(master)
    assert child.returncode == 0, err
    assert out.read_bytes().decode("utf-8") == answers[0] + "\n"
    assert "> " in err
