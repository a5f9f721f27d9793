"""What stands in the way of TensorRT is told in one line with what to do."""

import os
import re
import subprocess
import sys

import pytest

from edgeformer.backends import open_backend
from edgeformer.bundle import Bundle
from edgeformer.errors import BundleError, EdgeformerError
from edgeformer.generation.golden import golden_mismatches
from tests import bundles
from tests.standin import libraries
from tests.standin.arithmetic import add_engines, execute


@pytest.fixture
def path(tmp_path, standin):
    standin.set_executor(execute)
    return bundles.copied(bundles.ROPE, tmp_path)


def refused(path, match, **engines):
    """Opening with engines fails with this text, and "auto" takes the CPU and says why."""
    add_engines(path, **engines)
    with pytest.raises(EdgeformerError, match=match):
        open_backend(Bundle.open(path), "trt")
    with open_backend(Bundle.open(path), "auto") as backend:
        assert backend.name == "ort"
        assert backend.reason.startswith("ort: ")
        return backend.reason


def test_a_bundle_without_engines_names_the_command_that_builds_one(path):
    with pytest.raises(EdgeformerError, match=r"no TensorRT engine; .*python -m edgeformer build"):
        open_backend(Bundle.open(path), "trt")


def test_an_engine_of_another_tensorrt_is_not_loaded(path, standin):
    enqueued = standin.count("enqueues")
    reason = refused(path, "was built here.*are of TensorRT 7.1.3 on", tensorrt="7.1.3")
    assert "edgeformer build" in reason
    assert standin.count("enqueues") == enqueued


def test_an_engine_of_another_gpu_is_not_loaded(path):
    def orin(record, plans):
        record["device"] = {"name": "Orin", "compute_capability": "8.7"}

    refused(path, r"this is TensorRT .* on Stand-in GPU \(5.3\).* on Orin \(8.7\)", change=orin)


def test_an_engine_of_other_graphs_is_not_loaded(path):
    add_engines(path)
    bundles.replace_file(path, "weights.bin", bundles.content_of(path, "weights.bin")[::-1])
    with pytest.raises(EdgeformerError, match=r"another weights.bin than this bundle"):
        open_backend(Bundle.open(path), "trt")


def test_a_plan_that_is_no_plan_gives_tensorrt_s_own_words(path):
    def garbage(record, plans):
        plans["decode"] = "garbage"

    refused(path, r"cannot load .*decode.plan: .*magic tag.*build it again", change=garbage)


def test_a_plan_with_one_changed_byte_never_reaches_tensorrt(path, standin):
    found = add_engines(path)
    plan = os.path.join(path, "engines", found.key, "prefill.plan")
    with open(plan, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last ^ 1]))
    with pytest.raises(EdgeformerError, match=r"prefill.plan is damaged; build it again"):
        open_backend(Bundle.open(path), "trt")


def test_a_plan_cut_short_is_refused_by_its_size(path):
    found = add_engines(path)
    plan = os.path.join(path, "engines", found.key, "prefill.plan")
    os.truncate(plan, 100)
    with pytest.raises(EdgeformerError, match=r"prefill.plan has 100 bytes, its record says"):
        open_backend(Bundle.open(path), "trt")


@pytest.mark.parametrize(
    "old, new, match",
    [
        ("past.1.key 0", "past.1.key 1", "past.1.key is float16, it must be float32"),
        ("new.1.value", "new.1.other", "new.1.other is not expected"),
        ("T,16", "T,8", r"new.0.key has shape \(-1, 8\), it must be \('T', 16\)"),
        ("R,280", "R", "logits has rank 1, it must have 2"),
        ("output new.0.key 0 T,16\n", "", "new.0.key is missing"),
    ],
)
def test_an_engine_with_other_tensors_is_refused(old, new, match, path):
    def change(record, plans):
        assert old in plans["prefill"]
        plans["prefill"] = plans["prefill"].replace(old, new)

    add_engines(path, change=change)
    with pytest.raises(BundleError, match=match):
        open_backend(Bundle.open(path), "trt")


def test_too_little_gpu_memory_says_what_for_and_frees_all(path, standin):
    add_engines(path)
    bundle = Bundle.open(path)
    try:
        for room in (0, 30000, 60000):
            standin.set_memory(standin.used_memory() + room)
            with pytest.raises(EdgeformerError, match=r"no GPU memory for .* MiB are free; close"):
                open_backend(bundle, "trt")
    finally:
        standin.set_memory(4 << 30)
    open_backend(bundle, "trt").close()


def test_without_a_gpu_the_null_that_the_bindings_make_is_explained(path, standin):
    add_engines(path)
    open_backend(Bundle.open(path), "trt").close()  # CUDA is up before TensorRT finds no GPU
    standin.set_device(False)
    try:
        with pytest.raises(EdgeformerError, match=r"initialization failure.*returned nullptr"):
            open_backend(Bundle.open(path), "trt")
    finally:
        standin.set_device(True)


def test_a_pycuda_that_is_too_old_is_told_with_the_one_to_install(standin, monkeypatch):
    from edgeformer.backends.cuda import Gpu, driver

    monkeypatch.delattr(driver.Device, "retain_primary_context")
    with pytest.raises(EdgeformerError, match=r"pycuda is too old.*pip install pycuda==2021.1"):
        Gpu()


@pytest.mark.parametrize(
    ("way", "told"),
    [(1, r"EndCapture gave error 901; "), (2, r"failed in a step: .*stream is capturing.*; ")],
    ids=["the capture", "the step in it"],
)
def test_a_capture_that_fails_is_refused_and_can_be_switched_off(path, standin, way, told):
    add_engines(path)
    bundle = Bundle.open(path)
    standin.fail_captures(way)
    try:
        refusal = pytest.raises(EdgeformerError, match=told + ".*--no-cuda-graph")
        with open_backend(bundle, "trt") as backend, refusal:
            golden_mismatches(backend, bundle.manifest)
        with open_backend(bundle, "trt", cuda_graph=False) as backend:
            assert golden_mismatches(backend, bundle.manifest) == []
    finally:
        standin.fail_captures(0)


def test_a_step_that_fails_on_the_gpu_keeps_no_row_and_leaves_a_usable_model(path, standin):
    @libraries.EXECUTOR
    def fail(*arguments):
        return 1

    add_engines(path)
    bundle = Bundle.open(path)
    with open_backend(bundle, "trt") as backend:
        backend.step([1, 2], [0, 1], [1])
        standin.set_executor(fail)
        with pytest.raises(EdgeformerError, match=r"CUDA failed: "):
            backend.step([3], [2], [0])
        assert backend.cached == 2
    standin.set_executor(execute)


def test_what_a_broken_gpu_refuses_is_one_error_whatever_was_asked(path, standin):
    @libraries.EXECUTOR
    def fail(*arguments):
        return 1

    add_engines(path)
    with open_backend(Bundle.open(path), "trt") as backend:
        backend.step([1, 2], [0, 1], [1])
        rows = backend.read_rows(0, 1)
        standin.set_executor(fail)
        for call in (
            lambda: backend.step([3], [2], [0]),
            lambda: backend.truncate(1),
            lambda: backend.drop(0, 1),
            lambda: backend.read_rows(0, 2),
            lambda: backend.write_rows(rows),
            lambda: backend.step([3], [2], [0]),
        ):
            with pytest.raises(EdgeformerError, match=r"CUDA failed: .*start the program again"):
                call()
    standin.set_executor(execute)


@pytest.mark.parametrize("call", ["step", "truncate", "drop", "read_rows"])
def test_a_closed_model_says_so(call, path):
    add_engines(path)
    backend = open_backend(Bundle.open(path), "trt")
    backend.close()
    backend.close()
    arguments = {"step": ([1], [0], [0]), "truncate": (0,)}.get(call, (0, 0))
    with pytest.raises(EdgeformerError, match=r"the model is closed"):
        getattr(backend, call)(*arguments)


def test_a_step_that_the_engine_cannot_take_is_refused_before_it(path, standin):
    add_engines(path)
    with open_backend(Bundle.open(path), "trt") as backend:
        before = standin.count("transfers")
        for step in (([280], [0], [0]), ([1], [120], [0]), ([1] * 17, range(17), [0])):
            with pytest.raises(EdgeformerError):
                backend.step(*step)
        assert standin.count("transfers") == before


def without(code):
    """What a program with pycuda and the bindings, and without any stand-in, prints."""
    installed = os.environ[libraries.VARIABLE].split("-")[0]
    folders = [
        libraries.ROOT,
        os.path.join(libraries.INSTALLED, "pycuda"),
        os.path.join(libraries.INSTALLED, "tensorrt-" + installed),
    ]
    child = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(folders)),
        timeout=60,
    )
    assert child.stderr == b""
    return child.stdout.decode("utf-8")


@pytest.mark.parametrize(
    "hidden, match",
    [
        ("", "there is no CUDA driver .libcuda.so.1"),
        ("pycuda", "pycuda cannot be imported.*pip install pycuda"),
    ],
)
def test_what_is_missing_is_named_with_its_remedy(hidden, match, path):
    add_engines(path)
    printed = without(
        "import sys\n"
        "if %r: sys.modules[%r] = None\n"
        "from edgeformer.backends import open_backend\n"
        "from edgeformer.bundle import Bundle\n"
        "try: open_backend(Bundle.open(%r), 'trt')\n"
        "except Exception as error: print(type(error).__name__, error)\n" % (hidden, hidden, path)
    )
    assert re.search("EdgeformerError " + match, printed), printed
