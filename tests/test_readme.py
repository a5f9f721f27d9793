"""The documents keep their word: every command in them is run, or checked piece by piece.

A block of commands runs line by line in one temporary folder that looks like the repository, and a
Python block runs there too. `<!-- not run: WHY -->` above a block says that it is too long or needs
another machine; then its targets, programs and options are still compared with the real ones.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LISTED = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
DOCUMENTS = sorted(LISTED.stdout.decode("utf-8").split())
PROGRAMS = [
    "edgeformer",
    "edgeformer generate",
    "edgeformer chat",
    "edgeformer prefix",
    "edgeformer check",
    "edgeformer doctor",
    "edgeformer score",
    "edgeformer drafter",
    "edgeformer info",
    "edgeformer plan",
    "edgeformer build",
    "edgeformer bench",
    "edgeformer.export",
    "edgeformer.export inspect",
    "edgeformer.export lint",
    "edgeformer.export precisions",
    "edgeformer.export quality",
    "edgeformer.nn.corpora",
    "edgeformer.nn.train",
    "edgeformer.nn.evaluate",
    "edgeformer.nn.ladder",
    "edgeformer.nn.presets",
    "edgeformer.nn.prune",
    "benchmarks.accept",
    "benchmarks.peers",
    "benchmarks.peers install",
    "benchmarks.peers list",
    "benchmarks.peers run",
    "benchmarks.peers show",
    "benchmarks/compare.py",
    "benchmarks/drafting.py",
    "benchmarks/presets.py",
    "benchmarks/selftest.py",
    "tests.tiers",
]
NOT_RUN = r"(?:<!-- not run: (?P<why>.+?) -->\n)?"
BLOCK = re.compile(NOT_RUN + r"```(?P<kind>\w*)\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = {"text", "toml", "json"}  # nothing to run
SCRIPTS = ["jetson_setup.sh", "docker/run.sh", "docker/build.sh"]
# Tools of the reader's machine, not ours.
OTHERS = {
    "apt-get",
    "bash",
    "source",
    "docker",
    "dpkg-deb",
    "echo",
    "gzip",
    "git",
    "cd",
    "pip",
    "scp",
    "ssh",
    "pre-commit",
    "python3",
    "rm",
    "export",
    "sudo",
    "tar",
}


def blocks(document):
    return list(BLOCK.finditer((ROOT / document).read_text("utf-8")))


def commands(block):
    """The command lines of a block, with comments off and continued lines joined."""
    joined = block["text"].replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and line.strip()[0] != "#"]


def words_of(command):
    return shlex.split(command, comments=True)


def all_commands():
    return [
        (document, command)
        for document in DOCUMENTS
        for block in blocks(document)
        if block["kind"] == "sh"
        for command in commands(block)
    ]


def run(words, folder, **options):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), HF_HUB_OFFLINE="1")
    return subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=600,
        **options,
    )


def program_of(words):
    """(program, its arguments) of a command that runs ours, or None for another command."""
    if words[:1] == ["docker/run.sh"]:  # edgeformer's verbs, after options of its own
        verb = next(n for n, word in enumerate(words) if n and not word.startswith("-"))
        return "edgeformer %s" % words[verb], words[verb + 1 :]
    if words[:1] not in (["python"], [".venv/bin/python"], [".venv36/bin/python"]):
        return None
    program, rest = (words[2], words[3:]) if words[1] == "-m" else (words[1], words[2:])
    if rest and "%s %s" % (program, rest[0]) in PROGRAMS:
        program, rest = "%s %s" % (program, rest[0]), rest[1:]
    return program, rest


def programs_of(command):
    """The same for each part of a pipe or an `&&` list."""
    words, parts = words_of(command), [[]]
    for word in words:
        if word in ("|", "&&"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [(part, program_of(part)) for part in parts]


def help_of(program):
    start = [program] if program.endswith(".py") else ["-m", *program.split()]
    done = run([sys.executable, *start, "--help"], ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def options_of(script):
    return set(
        re.findall(r"^ +(--[a-z][\w-]*)", run(["bash", script, "--help"], ROOT).stdout, re.M)
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with the repository's inputs and none of its outputs."""
    for name in ("export", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def test_documents_hold_only_blocks_of_a_known_kind():
    for document in DOCUMENTS:
        for block in blocks(document):
            assert block["kind"] in SHOWN | {"sh", "python"}, (document, block["text"][:80])


def test_first_command_stands_within_20_lines_of_the_readme():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert "make demo" in "\n".join(lines[:20])


def test_each_command_names_something_that_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    assert len(all_commands()) >= 8
    for document, command in all_commands():
        for words, ours in programs_of(command):
            if words[0] == "make":
                named = [word for word in words[1:] if "=" not in word]
                assert named and set(named) <= targets, (document, command)
            elif ours is None:
                assert words[0] in OTHERS or (ROOT / words[0]).is_file(), (document, command)
            else:
                assert ours[0] in [*PROGRAMS, "pip"], (document, command)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_option_in_the_documents_stands_in_the_help(program):
    text = help_of(program)
    assert program.split()[0] in text
    offered = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
    for document, command in all_commands():
        for _, ours in programs_of(command):
            if ours and ours[0] == program:
                used = {word.split("=")[0] for word in ours[1] if re.match(r"--?[a-zA-Z]", word)}
                assert used <= offered, "%s: %s: no such option" % (document, command)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_option_of_a_script_in_the_documents_stands_in_its_help(script):
    offered, used = options_of(script), set()
    # what follows a verb is the verb's
    words = r"((?: --[\w-]+)*)" if script == "docker/run.sh" else r"([^\n`;&]*)"
    for document in DOCUMENTS:
        for text in re.findall(re.escape(script) + words, (ROOT / document).read_text("utf-8")):
            used.update(re.findall(r"--[a-z][\w-]*", text))
    assert used and used <= offered, script


def test_no_document_speaks_of_an_option_that_no_program_has():
    offered = {"--no-deps", "--only-binary", "--gpus", "--runtime"}  # of pip and of Docker
    for script in SCRIPTS:
        offered.update(options_of(script))
    for program in PROGRAMS:
        offered.update(re.findall(r"--[a-z][\w-]*", help_of(program)))
    for document in DOCUMENTS:
        named = set(re.findall(r"(?<=`)--[a-z][\w-]*", (ROOT / document).read_text("utf-8")))
        assert named <= offered, document


@pytest.mark.parametrize(
    "document",
    [d if d == "README.md" else pytest.param(d, marks=pytest.mark.slow) for d in DOCUMENTS],
)
def test_commands_and_examples_of_a_document_work(document, folder):
    """In the document's own order: what one block makes, the next one reads.

    Python blocks with no command between them are one program.
    """
    program = ""
    for block in [b for b in blocks(document) if not b["why"] and b["kind"] not in SHOWN]:
        if block["kind"] == "python":
            program += block["text"]
            continue
        run_python(program, folder)
        program = ""
        for command in commands(block):
            if any(ours for _, ours in programs_of(command)):
                run_command(command, folder)
            else:
                assert words_of(command)[0] == "make", "say why it is not run: %s" % command
    run_python(program, folder)


def run_python(program, folder):
    if program:
        done = run([sys.executable, "-c", program], folder)
        assert done.returncode == 0, "%s\n%s" % (program, done.stderr)
        assert done.stdout.strip() or "print(" not in program


def run_command(command, folder):
    script = 'python() { "%s" "$@"; }; set -e -o pipefail; %s' % (sys.executable, command)
    done = run(["bash", "-c", script], folder)
    assert done.returncode == 0, "%s\n%s" % (command, done.stderr)
    assert done.stdout.strip() or done.stderr.strip(), "%s printed nothing" % command
