"""What imports what: the device half lives without PyTorch, and even without numpy for a while."""

import os
import subprocess
import sys

import pytest

from tests.py36_grammar import ROOT, device_files

HOST = ["torch", "onnx", "transformers", "safetensors", "tqdm"]
OPTIONAL = {
    "onnxruntime": ["edgeformer.backends.ort", "edgeformer.backends.ort_fused"],
    "tensorrt": ["edgeformer.backends.trt_api", "edgeformer.engines.trt_builder"],
    "pycuda": ["edgeformer.backends.cuda"],
    "tokenizers": [],
    "jinja2": ["edgeformer.text.chat"],
    "llguidance": ["edgeformer.generation.constraint.llg"],
}
# They import owners of two packages and neither of these itself.
JOINED = (
    "edgeformer.backends.trt",
    "edgeformer.backends.trt_lane",
    "edgeformer.backends.trt_loaded",
)

MODULES = [
    name[: -len(".py")].replace("/", ".").replace(".__init__", "") for name in device_files()
]


def python(code):
    """(status, stdout, stderr) of a fresh interpreter."""
    child = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=ROOT),
        timeout=120,
    )
    return child.returncode, child.stdout.decode("utf-8"), child.stderr.decode("utf-8")


def without(missing, code):
    """The code in a Python where importing these packages fails."""
    return "import sys\nfor name in %r: sys.modules[name] = None\n%s" % (missing, code)


def test_every_device_module_imports_without_the_packages_it_may_not_need():
    assert "edgeformer.backends.ort" in MODULES
    assert "edgeformer" in MODULES
    owners = {owner for modules in OPTIONAL.values() for owner in modules} | set(JOINED)
    free = [name for name in MODULES if name not in owners]
    code = "import importlib\nfor name in %r: importlib.import_module(name)" % free
    status, out, err = python(without(HOST + list(OPTIONAL), code))
    assert (status, out, err) == (0, "", "")


@pytest.mark.parametrize("package", sorted(OPTIONAL))
def test_the_owner_of_an_optional_package_needs_that_one_and_no_host_package(package):
    code = (
        "import importlib\n"
        "for name in %r:\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError as error: assert error.name.split('.')[0] == %r, error\n"
        "    else: raise AssertionError(name)\n" % (OPTIONAL[package], package)
    )
    status, _, err = python(without(HOST + list(OPTIONAL), code))
    assert status == 0, err


def test_import_edgeformer_needs_no_numpy_and_brings_nothing_heavy():
    heavy = ["numpy", "ctypes", "argparse", "subprocess", "multiprocessing", "hashlib", *OPTIONAL]
    code = "import edgeformer, sys\nprint([n for n in %r if sys.modules.get(n)])" % heavy
    status, out, err = python(without(["numpy"], code))
    assert (status, out.strip(), err) == (0, "[]", "")


def test_a_greedy_stream_brings_neither_openssl_nor_anything_else_heavy():
    heavy = ["hashlib", "ssl", "random", "statistics", "decimal", "multiprocessing", "jinja2"]
    code = (
        "import numpy, onnxruntime, sys\n"
        "held = set(sys.modules)  # an old numpy brings some of them itself\n"
        "import edgeformer\n"
        "with edgeformer.load('tests/data/tiny-rope', 'ort', 1) as model:\n"
        "    assert model.generate('the cat', max_new_tokens=4).tokens\n"
        "print([n for n in %r if n in sys.modules and n not in held])" % heavy
    )
    assert python(code) == (0, "[]\n", "")


@pytest.mark.parametrize(
    "verb", ["generate", "chat", "prefix", "check", "info", "doctor", "plan", "build", "bench"]
)
def test_help_needs_no_numpy(verb):
    code = (
        "from edgeformer.__main__ import main\n"
        "try: main([%r, '--help'])\n"
        "except SystemExit as stop: assert not stop.code" % verb
    )
    status, out, err = python(without(["numpy", "onnxruntime"], code))
    assert (status, err) == (0, "")
    assert "BUNDLE" in out


def test_info_needs_no_numpy():
    from tests import bundles

    code = "from edgeformer.__main__ import main; sys.exit(main(['info', %r]))" % bundles.ROPE
    status, out, err = python(without(["numpy", "onnxruntime"], code))
    assert (status, err) == (0, "")
    assert "tiny-rope" in out


@pytest.mark.parametrize("package", ["onnxruntime", "numpy"])
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(package):
    from tests import bundles

    code = "from edgeformer.__main__ import main; sys.exit(main(['check', %r]))" % bundles.ROPE
    status, out, err = python(without([package], code))
    assert (status, out) == (2, "")
    assert "error: " in err
    assert "pip install" in err
    assert package in err
    assert "Traceback" not in err
