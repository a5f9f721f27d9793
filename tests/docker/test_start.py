"""docker/start.sh: pycuda is compiled once, by one container, and nothing half done is taken."""

import os
import signal
import subprocess
import time

import pytest

from tests.device import boards
from tests.docker import machines
from tests.setup.machines import executable

# Stands for the image's Python: pip makes a module slowly, edgeformer tells what it sees.
PYTHON = """#!/bin/bash
case "$*" in
"-m pip "*)
    echo "$*" >>"$FAKE/pip"
    cat "$HOME/.aksetup-defaults.py" >"$FAKE/config"
    [ -z "$FAKE_FAILS" ] || { echo "cuda.h: No such file"; exit 1; }
    while [ $# -gt 1 ] && [ "$1" != --target ]; do shift; done
    mkdir "$2" || exit 1
    : >"$2/half"
    sleep "${FAKE_SECONDS:-0}"
    mv "$2/half" "$2/whole" ;;
"-m edgeformer "*) echo "ran ${*:3} with $PYTHONPATH: $(ls "$PYTHONPATH" 2>/dev/null)" ;;
esac
"""


class Container:
    def __init__(self, folder, headers=True):
        self.folder = str(folder)
        prefix = os.path.join(self.folder, "prefix")
        executable(prefix, "bin/python", PYTHON)
        boards.write(prefix, "sources/pycuda-2021.1.tar.gz", "x")
        os.symlink(machines.FOLDER, os.path.join(prefix, "docker"))
        cuda = os.path.join(self.folder, "cuda")
        boards.write(cuda, "version.txt", "CUDA Version 10.2.300\n")
        if headers:
            boards.write(cuda, "include/cuda.h", "")
        self.cache = os.path.join(self.folder, "cache")
        os.mkdir(self.cache)
        self.built = os.path.join(self.cache, "pycuda-2021.1-cuda10.2.300")
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "FAKE": self.folder,
            "EDGEFORMER_PREFIX": prefix,
            "EDGEFORMER_CUDA": cuda,
            "EDGEFORMER_CACHE": self.cache,
        }

    def begin(self, *words, **environment):
        return subprocess.Popen(
            ["bash", os.path.join(machines.FOLDER, "start.sh"), *words],
            env=dict(self.environment, **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            start_new_session=True,
        )

    def run(self, *words, **environment):
        child = self.begin(*words, **environment)
        output, errors = child.communicate(timeout=60)
        return child.returncode, output.strip(), errors

    def compiled(self):
        try:
            with open(os.path.join(self.folder, "pip")) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []


def test_the_first_run_compiles_without_a_network_and_the_second_takes_what_is_there(tmp_path):
    box = Container(tmp_path)
    status, output, errors = box.run("generate", "/bundles/a", "It is a truth")
    ran = "ran generate /bundles/a It is a truth with %s: whole" % box.built
    assert (status, output) == (0, ran)
    assert "compiling pycuda for CUDA 10.2.300" in errors
    (call,) = box.compiled()
    assert "--no-index --no-deps --no-build-isolation" in call
    with open(os.path.join(box.folder, "config")) as file:
        config = file.read()
    assert "'%s/cuda/include'" % box.folder in config and "CURAND = False" in config
    assert box.run("generate", "/bundles/a", "It is a truth") == (0, ran, "")
    assert len(box.compiled()) == 1


@pytest.mark.parametrize("words", [["info", "/bundles/a"], ["plan", "/bundles/a"], ["--help"]])
def test_a_verb_that_needs_no_gpu_compiles_nothing(words, tmp_path):
    box = Container(tmp_path)
    assert box.run(*words)[:2] == (0, "ran %s with :" % " ".join(words))
    assert not box.compiled()


def test_without_the_hosts_cuda_the_verb_runs_all_the_same(tmp_path):
    box = Container(tmp_path, headers=False)
    assert box.run("check", "/bundles/a") == (0, "ran check /bundles/a with :", "")


def test_two_containers_that_start_together_compile_once(tmp_path):
    box = Container(tmp_path)
    both = [box.begin("check", "b", FAKE_SECONDS="1") for _ in range(2)]
    told = [child.communicate(timeout=60) for child in both]
    assert [output.strip() for output, _ in told] == ["ran check b with %s: whole" % box.built] * 2
    assert len(box.compiled()) == 1
    assert sorted("waiting" in errors for _, errors in told) == [False, True]


def test_a_run_that_was_killed_while_it_compiled_leaves_nothing_that_counts(tmp_path):
    box = Container(tmp_path)
    child = box.begin("check", "b", FAKE_SECONDS="60")
    for _ in range(500):
        if os.path.exists(box.built + ".part/half"):
            break
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    assert os.listdir(box.built + ".part") == ["half"] and not os.path.exists(box.built)
    assert box.run("check", "b")[:2] == (0, "ran check b with %s: whole" % box.built)
    assert sorted(os.listdir(box.cache)) == [".lock", os.path.basename(box.built), "pycuda.log"]


def test_another_cuda_gets_its_own_pycuda(tmp_path):
    box = Container(tmp_path)
    box.run("check", "b")
    boards.write(box.folder, "cuda/version.txt", "CUDA Version 10.2.460\n")
    assert "cuda10.2.460: whole" in box.run("check", "b")[1]
    assert len(box.compiled()) == 2


def test_a_compiler_that_fails_ends_the_run_with_its_words_and_doctor_runs_on(tmp_path):
    box = Container(tmp_path)
    status, output, errors = box.run("generate", "b", "x", FAKE_FAILS="yes")
    assert (status, output) == (2, "")
    assert "cuda.h: No such file" in errors and "docker/run.sh --cpu" in errors
    assert box.run("doctor", FAKE_FAILS="yes")[:2] == (0, "ran doctor with :")
    assert not os.path.exists(box.built)
