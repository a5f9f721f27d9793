"""`edgeformer prefix`, and the verbs that begin with its files."""

import io
import json
import os
import sys

import pytest

import edgeformer
from edgeformer.__main__ import main
from edgeformer.text import open_tokenizer
from tests import bundles
from tests.generation.test_conversation import bundle_of


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = bundle_of(tmp_path_factory.mktemp("chat"))
    bundles.edited(made, lambda data: data.update(eos_token_ids=[]))
    return made


@pytest.fixture
def run(monkeypatch, capfd):
    """(status, stdout, stderr) of the command in this process."""

    def ran(*arguments, **more):
        stdin = io.TextIOWrapper(io.BytesIO(more.get("stdin", b"")), "ascii")
        monkeypatch.setattr(sys, "stdin", stdin)
        status = main(list(arguments))
        out, err = capfd.readouterr()
        return status, out, err

    return ran


def test_a_text_goes_on_behind_its_prefix(run, tmp_path):
    file, count = str(tmp_path / "rows"), ["--max-new-tokens", "6", "--json"]
    assert run("prefix", bundles.ROPE, "the cat and", "-o", file)[:2] == (0, "")
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        encode = model.tokenizer.encode
        ids = encode("the cat and") + encode(" here")
        wanted = model.generate(ids, max_new_tokens=6)
    status, out, err = run("generate", bundles.ROPE, " here", "--prefix", file, *count)
    assert status == 0, err
    document = json.loads(out)
    assert (document["tokens"], document["text"]) == (list(wanted.tokens), wanted.text)
    assert document["stats"]["prompt_tokens"] == len(ids)
    assert document["stats"]["reused_tokens"] == len(encode("the cat and"))
    assert "of the prompt reused" in err
    asked = " ".join(map(str, encode(" here")))
    out = run("generate", bundles.ROPE, asked, "--ids", "--prefix", file, *count)[1]
    assert json.loads(out)["tokens"] == list(wanted.tokens)
    out = run("generate", bundles.ROPE, "", "--prefix", file, *count)[1]
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        assert json.loads(out)["text"] == model.generate("the cat and", max_new_tokens=6).text


def test_a_prefix_comes_from_stdin_or_as_ids(run, tmp_path):
    files = [str(tmp_path / name) for name in "ab"]
    with edgeformer.load(bundles.ROPE, threads=1) as model:
        ids = " ".join(map(str, model.prompt_ids("the cat")))
    assert run("prefix", bundles.ROPE, "-", "-o", files[0], stdin=b"the cat\n")[0] == 0
    status, _, err = run("prefix", bundles.ROPE, ids, "--ids", "-o", files[1])
    assert status == 0
    assert "%s: %d rows" % (files[1], len(ids.split())) in err
    contents = []
    for file in files:
        with open(file, "rb") as opened:
            contents.append(opened.read())
    assert contents[0] == contents[1]


def test_a_chat_begins_with_its_prefix(run, path, tmp_path):
    file, count = str(tmp_path / "rows"), ["--max-new-tokens", "3"]
    assert run("prefix", path, "be", "--chat", "-o", file)[0] == 0
    wanted = run("generate", path, "hi", "--chat", "--system", "be", *count)
    found = run("generate", path, "hi", "--chat", "--prefix", file, *count)
    assert found[:2] == wanted[:2]
    assert "5 of the prompt reused" in found[2]
    status, out, err = run("chat", path, "--prefix", file, *count, stdin=b"hi\n/system\n")
    assert (status, out) == wanted[:2]
    assert "5 of the prompt reused" in err
    assert "system: be" in err


def test_what_does_not_go_together_is_refused(run, path, tmp_path):
    text, told = str(tmp_path / "text"), str(tmp_path / "told")
    assert run("prefix", path, "be", "-o", text)[0] == 0
    assert run("prefix", path, "be", "--chat", "-o", told)[0] == 0
    for arguments, named in [
        (["generate", path, "hi", "--chat", "--prefix", text], "is of a text; leave out --chat"),
        (["generate", path, "hi", "--prefix", told], "is of a chat; add --chat"),
        (["generate", path, "hi", "--chat", "--system", "x", "--prefix", told], "leave that out"),
        (["chat", path, "--system", "x", "--prefix", told], "leave that out"),
        (["chat", path, "--prefix", text], "is of a text"),
        (["chat", path, "--prefix", told, "--load", told], "give one"),
        (["prefix", path, "1", "--ids", "--chat", "-o", text], "leave out --ids"),
        (["prefix", path, "x" * 40, "-o", text], "40 tokens, the bundle's capacity is 32"),
        (["prefix", path, "be", "-o", str(tmp_path)], "is a directory"),
        (["prefix", bundles.LEARNED, "be", "--chat", "-o", text], "no chat template"),
        (["generate", bundles.ROPE, "hi", "--prefix", text], "python -m edgeformer prefix"),
        (["generate", path, "hi", "--prefix", "none"], "cannot be read"),
    ]:
        status, out, err = run(*arguments)
        assert (status, out) == (2, ""), arguments
        assert named in err
        assert "Traceback" not in err
    assert sorted(os.listdir(str(tmp_path))) == ["text", "told"]


@pytest.mark.parametrize("verb", ["prefix", "drafter"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    run, path, tmp_path, monkeypatch, verb
):
    def computed(*_):
        raise AssertionError("it was computed")

    monkeypatch.setattr(edgeformer, "load", computed)
    monkeypatch.setattr(open_tokenizer.__module__ + ".open_tokenizer", computed)
    text = tmp_path / "text"
    text.write_text("a text for n-grams")
    given = str(text) if verb == "drafter" else "be"
    for out, named in [
        (str(tmp_path), "is a directory"),
        (str(tmp_path / "no" / "file"), "there is no directory"),
        ("/proc/file", "cannot be written"),
        (os.devnull, "no regular file"),
    ]:
        status, _, err = run(verb, path, given, "-o", out)
        assert status == 2 and named in err
    assert os.listdir(str(tmp_path)) == ["text"]
