"""`edgeformer chat` as a child process at a real terminal."""

import errno
import importlib.util
import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.test_chat_verb import FOUR, endless, library
from tests.test_cli import SLOW, environment


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return endless(tmp_path_factory.mktemp("chat"))


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
    """As from a key that is held down: while the line is read, while it is given up, and while an
    answer ends."""
    for options in ({}, {"stdout": str(tmp_path / "out")}):
        with Terminal(path, **options) as terminal:
            for pause in (0.03, 0.06):
                for press in range(30):
                    terminal.keys(b"hi\n\x03" if press % 10 == 9 else b"\x03")
                    time.sleep(pause)
            time.sleep(0.3)
            terminal.keys(b"\x15\n/undo 99\n")
            terminal.wait_for("99 cannot be taken back")
            terminal.wait_for("> ")  # before it, Ctrl-D would not be readline's
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
