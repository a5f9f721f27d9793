"""`python -m edgeformer` as a child process: what goes where, and with which exit status."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import edgeformer
from edgeformer.__main__ import VERBS, main
from tests import bundles

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNT = 12


def command(*arguments):
    return [sys.executable, "-m", "edgeformer", *arguments]


def environment(**more):
    """Ours, without what someone's shell tells Python about buffers and encodings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return dict(kept, PYTHONPATH=ROOT, **more)


def run(*arguments, **options):
    """(status, stdout, stderr) in bytes."""
    stdin = options.pop("stdin", b"")
    child = subprocess.run(
        command(*arguments),
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**options),
        timeout=60,
    )
    return child.returncode, child.stdout, child.stderr


@pytest.fixture(scope="module")
def answer():
    """What a greedy continuation of "the cat" is, by the library."""
    with edgeformer.load(bundles.ROPE) as model:
        return model.generate("the cat", max_new_tokens=COUNT)


def generate(*arguments, **options):
    return run("generate", bundles.ROPE, *arguments, "--max-new-tokens", str(COUNT), **options)


def test_text_goes_to_stdout_and_everything_else_to_stderr(answer):
    status, out, err = generate("the cat")
    assert (status, out.decode("utf-8")) == (0, answer.text + "\n")
    assert b"backend: ort" in err
    assert b"length: " in err
    assert b"12 new tokens" in err
    assert b"tokens/s" in err


def test_text_comes_as_it_is_made():
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW % 0.1, "generate", bundles.LEARNED, "the ot"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        first = child.stdout.read(1)
    finally:
        child.kill()
        rest, _ = child.communicate()
    assert len(first) == 1
    assert len(rest) < 10  # of 27: the others were still to be made


def test_a_prompt_comes_from_stdin_without_its_last_line_break(answer):
    for stdin in (b"the cat", b"the cat\n"):
        status, out, _ = generate("-", stdin=stdin)
        assert (status, out.decode("utf-8")) == (0, answer.text + "\n")
    assert generate("-", stdin=b"the cat\n\n")[1].decode("utf-8") != answer.text + "\n"


def test_stdin_that_is_not_utf8_is_refused_with_the_byte():
    status, out, err = generate("-", stdin=b"caf\xe9 x")
    assert (status, out) == (2, b"")
    assert b"0xe9 at offset 3" in err
    assert b"Traceback" not in err


def test_json_is_one_document_on_the_last_line(answer):
    status, out, err = generate("the cat", "--json")
    assert status == 0
    lines = out.decode("ascii").splitlines()
    assert len(lines) == 1
    document = json.loads(lines[-1])
    assert document["text"] == answer.text
    assert document["tokens"] == list(answer.tokens)
    assert document["finish_reason"] == "length"
    assert document["stats"]["new_tokens"] == COUNT
    assert len(document["stats"]["token_s"]) == COUNT - 1
    assert document["stats"]["tokens_per_s"] > 0
    assert document["backend_reason"].startswith("ort")
    assert b"backend: ort" in err


def test_ids_go_in_and_come_out(answer):
    with edgeformer.load(bundles.ROPE) as model:
        ids = model.prompt_ids("the cat")
    for prompt in (" ".join(map(str, ids)), ",".join(map(str, ids))):
        status, out, _ = generate(prompt, "--ids")
        assert (status, [int(word) for word in out.split()]) == (0, list(answer.tokens))
    status, _, err = generate("the cat", "--ids")
    assert status == 2
    assert b"'the' is no token id" in err


def test_sampling_options_reach_the_sampler():
    asked = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 2**63}
    with edgeformer.load(bundles.ROPE) as model:
        wanted = model.generate("the cat", max_new_tokens=COUNT, **asked)
    options = ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.95", "--seed", str(2**63)]
    status, out, err = generate("the cat", *options, "--json")
    assert status == 0
    assert json.loads(out.decode("ascii"))["tokens"] == list(wanted.tokens)
    assert b"seed %d" % 2**63 in err


def test_every_stop_option_counts():
    with edgeformer.load(bundles.LEARNED) as model:
        text = model.generate("the ot", max_new_tokens=COUNT).text
    stop = text[4:6]
    assert text.index(stop) == 4
    arguments = ["--stop", "never there", "--stop", stop, "--max-new-tokens", str(COUNT)]
    status, out, err = run("generate", bundles.LEARNED, "the ot", *arguments)
    assert (status, out.decode("utf-8")) == (0, text[:4] + "\n")
    assert b"stop_string: " in err


@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_text_beyond_ascii_goes_through_the_c_locale(locale):
    asked = {"max_new_tokens": 80, "temperature": 50.0, "seed": 1}
    with edgeformer.load(bundles.ROPE) as model:
        wanted = model.generate("naïve café 🙂", **asked).text
    assert not all(ord(c) < 128 for c in wanted)
    options = ["--max-new-tokens", "80", "--temperature", "50", "--seed", "1"]
    status, out, err = run(
        "generate", bundles.ROPE, "naïve café 🙂", *options, LC_ALL=locale, LANG=locale
    )
    assert status == 0, err
    # A later Python may leave the locale's ASCII and escape what it lacks; nothing may be lost.
    assert out.decode("utf-8") == wanted + "\n"


def test_a_stdout_of_another_encoding_gets_question_marks_and_no_error():
    asked = ["--max-new-tokens", "80", "--temperature", "50", "--seed", "1"]
    status, out, err = run("generate", bundles.ROPE, "the", *asked, PYTHONIOENCODING="latin-1")
    assert (status, b"?" in out, b"Traceback" in err) == (0, True, False)


def test_an_argument_that_is_not_utf8_is_refused_with_the_byte():
    for arguments in (["caf\udce9"], ["the", "--stop", "\udce9"]):
        status, out, err = generate(*arguments)
        assert (status, out) == (2, b"")
        assert b"0xe9" in err
        assert b"Traceback" not in err


# A child whose steps take at least that long, so that there is time to disturb it.
SLOW = """
import sys, time
from edgeformer.backends.ort import OrtBackend
from edgeformer.__main__ import main
step = OrtBackend.step
def slow(*arguments):
    time.sleep(%s)
    return step(*arguments)
OrtBackend.step = slow
sys.exit(main())
"""


@pytest.mark.parametrize("json_too", [False, True])
def test_ctrl_c_ends_with_the_stats_and_130(json_too):
    arguments = ["generate", bundles.ROPE, "the cat", *(["--json"] if json_too else [])]
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW % 0.05, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert child.stderr.readline().startswith(b"backend: ")
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert err.startswith(b"cancelled: ")
    assert b"Traceback" not in err
    if json_too:
        document = json.loads(out.decode("ascii"))
        assert document["finish_reason"] == "cancelled"
        assert 0 < document["stats"]["new_tokens"] == len(document["tokens"]) < 80
    else:
        assert out.endswith(b"\n")


def test_ctrl_c_while_the_prompt_is_read_ends_quietly():
    child = subprocess.Popen(
        command("generate", bundles.ROPE, "-"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    time.sleep(1.5)  # until it waits for the prompt
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize(
    "arguments", [["generate", bundles.ROPE, "the"], ["info", bundles.ROPE], ["--help"]]
)
def test_a_reader_that_leaves_ends_the_command_quietly(arguments):
    read, write = os.pipe()
    os.close(read)  # nobody reads: the first write fails
    try:
        child = subprocess.run(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=60,
        )
    finally:
        os.close(write)
    lines = [line for line in child.stderr.splitlines() if not line.startswith(b"backend: ")]
    assert (child.returncode, lines) == (0, [])


def test_without_a_stdout_nothing_breaks():
    script = '"$0" -m edgeformer generate "$1" the >&-'
    child = subprocess.run(
        ["sh", "-c", script, sys.executable, bundles.ROPE],
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=60,
    )
    assert (child.returncode, b"Traceback" in child.stderr) == (0, False)


def test_check_says_what_holds():
    for path in bundles.BOTH:
        status, out, err = run("check", path)
        assert (status, out) == (0, b"")
        assert b"golden tokens are equal" in err


def test_check_fails_on_other_golden_tokens_with_1_and_the_first_step(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)

    def change(data):
        data["golden"]["greedy_ids"][5] ^= 1

    bundles.edited(path, change)
    status, _, err = run("check", path)
    assert status == 1
    assert b"at step 5" in err
    assert b"Traceback" not in err


def damaged(folder, kind):
    path = bundles.copied(bundles.ROPE, folder)
    if kind == "hash":
        content = bytearray(bundles.content_of(path, "weights.bin"))
        content[5000] ^= 1
        with open(os.path.join(path, "weights.bin"), "wb") as file:
            file.write(content)
    elif kind == "missing":
        os.unlink(os.path.join(path, "weights.bin"))
    elif kind == "truncated":
        os.truncate(os.path.join(path, "prefill.onnx"), 100)
    elif kind == "swapped":
        prefill, decode = os.path.join(path, "prefill.onnx"), os.path.join(path, "decode.onnx")
        os.rename(prefill, path + ".swap")
        os.rename(decode, prefill)
        os.rename(path + ".swap", decode)
    elif kind == "outside":
        entry = {"bytes": 1, "sha256": "0" * 64}
        bundles.edited(path, lambda data: data["files"].update({"../../etc/passwd": entry}))
    elif kind == "format":
        bundles.edited(path, lambda data: data.update(format=1))
    elif kind == "key":
        bundles.edited(path, lambda data: data.update(colour="red"))
    elif kind == "deep":
        with open(os.path.join(path, "manifest.json"), "w") as file:
            file.write("[" * 100000)
    elif kind == "graph":
        other = bundles.content_of(path, "decode.onnx")
        bundles.replace_file(path, "prefill.onnx", other)
    return path


DAMAGES = ["missing", "truncated", "swapped", "outside", "format", "key", "deep", "graph"]


@pytest.mark.parametrize("kind", ["hash", *DAMAGES])
def test_check_refuses_a_damaged_bundle_with_2_and_one_line(tmp_path, capsys, kind):
    status = main(["check", damaged(tmp_path, kind)])
    err = capsys.readouterr().err.splitlines()
    assert status == 2
    assert err[-1].startswith("error: ")


@pytest.mark.parametrize("kind", DAMAGES)
def test_generate_refuses_a_damaged_bundle_with_2_and_one_line(tmp_path, capsys, kind):
    status = main(["generate", damaged(tmp_path, kind), "the"])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


def test_a_damaged_bundle_shows_no_traceback(tmp_path):
    for verb in (["check"], ["generate"], ["info"]):
        path = str(tmp_path / "nowhere")
        status, out, err = run(*verb, path, *(["x"] if verb == ["generate"] else []))
        assert (status, out) == (2, b"")
        assert err.startswith(b"error: ")
        assert b"Traceback" not in err


@pytest.mark.parametrize(
    "arguments, named",
    [
        ([], "usage"),
        (["fly"], "generate, chat, check, info"),
        (["generate"], "usage"),
        (["generate", bundles.ROPE], "usage"),
        (["generate", bundles.ROPE, "x", "--temprature", "1"], "--temprature"),
        (["generate", bundles.ROPE, "x", "--temp", "1"], "--temp"),
        (["generate", bundles.ROPE, "x", "--top-k", "many"], "--top-k"),
        (["generate", bundles.ROPE, "x", "--temperature", "-1"], "from 0 to 100"),
        (["generate", bundles.ROPE, "x", "--temperature", "nan"], "from 0 to 100"),
        (["generate", bundles.ROPE, "x", "--top-p", "0"], "above 0"),
        (["generate", bundles.ROPE, "x", "--seed", "-1"], "seed"),
        (["generate", bundles.ROPE, "x", "--max-new-tokens", "0"], "max_new_tokens"),
        (["generate", bundles.ROPE, "x", "--stop", ""], "stop"),
        (["generate", bundles.ROPE, "x", "--threads", "0"], "threads"),
        (["generate", bundles.ROPE, "x", "--backend", "trt"], "TensorRT"),
        (["generate", bundles.ROPE, "x", "--backend", "x"], "auto, ort, trt"),
        (["generate", bundles.ROPE, "the cat " * 200], "capacity is 100"),
        (["check"], "usage"),
        (["info", bundles.ROPE, "x"], "usage"),
    ],
)
def test_a_usage_error_is_2_and_names_what_is_wrong(capsys, arguments, named):
    try:
        status = main(arguments)
    except SystemExit as stop:  # argparse's way out
        status = stop.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert named in err


def test_info_tells_what_the_manifest_holds():
    status, out, _ = run("info", bundles.ROPE)
    assert status == 0
    for word in (b"tiny-rope", b"capacity", b"100 tokens", b"byte-bpe", b"weights.bin"):
        assert word in out
    status, out, _ = run("info", bundles.ROPE, "--json")
    assert status == 0
    assert json.loads(out.decode("ascii")) == bundles.read_json(bundles.ROPE)


def test_help_names_every_verb_and_every_verb_has_help():
    status, out, _ = run("--help")
    assert status == 0
    for verb in VERBS:
        assert verb.encode("ascii") in out
        status, text, _ = run(verb, "--help")
        assert (status, b"BUNDLE" in text) == (0, True)
    assert run("--version")[:2] == (0, b"edgeformer %s\n" % edgeformer.__version__.encode("ascii"))
