"""Threads, interrupts, garbage collection and the end of the program."""

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

import edgeformer
from edgeformer.backends import open_backend
from edgeformer.backends.cuda import Queue
from edgeformer.bundle import Bundle
from edgeformer.generation.golden import golden_mismatches
from tests import bundles
from tests.standin import libraries
from tests.standin.arithmetic import add_engines, execute


@pytest.fixture
def path(tmp_path, standin):
    standin.set_executor(execute)
    path = bundles.copied(bundles.ROPE, tmp_path)
    add_engines(path)
    return path


def in_a_thread(work):
    """The result of work() in a new thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    assert results, "the thread ended with an error"
    return results[0]


def test_a_model_loaded_in_one_thread_works_and_closes_in_others(path, standin):
    bundle = Bundle.open(path)
    backend = in_a_thread(lambda: open_backend(bundle, "trt"))

    def use():
        wrong = golden_mismatches(backend, bundle.manifest)
        return wrong, standin.depth()

    assert in_a_thread(use) == ([], 0)
    assert use() == ([], 0)
    assert in_a_thread(lambda: (backend.close(), standin.depth())) == (None, 0)


def test_two_models_at_once_do_not_meet(path):
    bundle = Bundle.open(path)
    with open_backend(bundle, "trt") as first, open_backend(bundle, "trt") as second:
        work = [lambda: golden_mismatches(first, bundle.manifest)]
        work += [lambda: golden_mismatches(second, bundle.manifest)]
        results = []
        threads = [threading.Thread(target=lambda w=w: results.append(w())) for w in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [[], []]


@pytest.mark.parametrize("call", ["send", "fetch", "copy_planes", "copy", "synchronize"])
def test_ctrl_c_at_any_call_of_a_step_leaves_the_model_usable(call, path, standin, monkeypatch):
    golden = Bundle.open(path).manifest.golden
    real = getattr(Queue, call)
    with edgeformer.load(path, backend="trt") as model:
        stream = model.stream(golden.prompt_ids, max_new_tokens=30)
        for _ in range(9):
            next(stream)

        def interrupted(self, *arguments):
            if call in ("copy_planes", "copy"):
                real(self, *arguments)  # after the copy was asked for, before it is counted
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(Queue, call, interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        assert stream.finish_reason == "cancelled"
        assert standin.depth() == 0
        assert model.generate(golden.prompt_ids, max_new_tokens=30).tokens == golden.greedy_ids[:30]


def test_rows_of_an_interrupted_step_are_emptied_before_the_next(path, monkeypatch):
    bundle = Bundle.open(path)
    with open_backend(bundle, "trt") as backend:
        backend.step([1, 2, 3], [0, 1, 2], [0])
        wanted = backend.step([4], [3], [0]).logits
        backend.truncate(3)

        def interrupted(self):
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(Queue, "synchronize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            backend.step([9, 8, 7], [0, 1, 2], [0])
        assert backend.cached == 3
        assert (backend.step([4], [3], [0]).logits == wanted).all()


def test_a_model_that_is_only_dropped_gives_its_memory_back(path, standin):
    before = standin.used_memory()
    backend = open_backend(Bundle.open(path), "trt")
    assert standin.used_memory() > before
    in_a_thread(lambda: gc.collect())
    del backend
    gc.collect()
    assert standin.used_memory() == before


PROGRAM = """
import os, sys, signal, threading
from tests.standin import libraries
standin = libraries.load(os.environ[libraries.VARIABLE], os.environ[libraries.VARIABLE + "_FOLDER"])
from tests.standin.arithmetic import add_engines, execute
standin.set_executor(execute)
import edgeformer
path = sys.argv[1]
import shutil; shutil.rmtree(path + "/engines"); add_engines(path)
def ids(step): print(step.token, end=" ", flush=True)
"""
LOAD = "model = edgeformer.load(path)\n"
ENDINGS = {
    "falls off the end": LOAD + "for s in model.stream([1, 2]): ids(s)\n",
    "exits in a stream": LOAD + "for s in model.stream([1, 2]): sys.exit(0)\n",
    "holds it in a cycle": "a = [edgeformer.load(path)]\na.append(a)\nnext(a[0].stream([1, 2]))\n",
    "loads in a thread": (
        "a = []\nt = threading.Thread(target=lambda: a.append(edgeformer.load(path)))\n"
        "t.start(); t.join()\nfor s in a[0].stream([1, 2]): ids(s)\n"
    ),
}


def program(path, code):
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + code, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=libraries.ROOT,
    )


@pytest.mark.parametrize("ending", sorted(ENDINGS))
def test_a_program_that_never_closes_its_model_ends_in_silence(ending, path):
    child = program(path, ENDINGS[ending])
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err.decode("utf-8")) == (0, ""), out


def test_a_real_sigint_in_a_stream_ends_the_program_as_python_does(path):
    # Without arithmetic: it is Python here, where a signal would stop it, and a GPU's is not.
    code = (
        "standin.set_executor(None)\n"
        + LOAD
        + "while 1:\n    for s in model.stream([1, 2]): ids(s)\n"
    )
    child = program(path, code)
    read = child.stdout.read(20)
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert read
    assert child.returncode in (1, -signal.SIGINT), err
    lines = err.decode("utf-8").strip().splitlines()
    assert lines[-1] == "KeyboardInterrupt", lines
