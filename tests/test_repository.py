"""The repository's own rules, read off its files. The host half's Python runs this."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.py36_grammar import HOST_FOLDERS, device_files, grammar_error, older_files
from tests.test_imports import OPTIONAL

ROOT = Path(__file__).resolve().parent.parent

HOST_PACKAGES = {"torch", "onnx", "transformers", "safetensors", "tqdm", "tokenizers", "tomllib"}
HOST_PACKAGES |= {"gguf", "huggingface_hub", "jsonschema"}
# Large and for one command each, which says so when they are missing; and what a board brings.
ON_REQUEST = {"rdata", "matplotlib", "tensorrt", "pycuda", "llama_cpp"}
ON_REQUEST |= {"onnxruntime_genai", "optimum", "ctranslate2"}


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    paths = [ROOT / name for name in listed.stdout.decode("utf-8").split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_files():
    return [path for path in tracked_files() if b"\0" not in path.read_bytes()[:8192]]


def python_files():
    return [path for path in tracked_files() if path.suffix == ".py"]


def imported_modules(path, top_level_only=False):
    """Dotted names that a file imports, anywhere in it or only when it is itself imported."""
    tree = ast.parse(path.read_text("utf-8"))
    names = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update("%s.%s" % (node.module, alias.name) for alias in node.names)
    return names


def packages(path):
    return {name.split(".")[0] for name in imported_modules(path)}


def host_needs(imported):
    """Those of the dotted names that only the host half's environment has."""
    ours = ("edgeformer.nn", "edgeformer.export", "tests.nn", "tests.export")
    ours += ("report.page", "report.drawing", "report.plots")  # pictures, with matplotlib
    return {m for m in imported if m.startswith(ours) or m.split(".")[0] in HOST_PACKAGES}


def relative(path):
    return path.relative_to(ROOT).as_posix()


def test_no_file_names_a_developers_machine_or_a_package_index():
    # In pieces, so that this file is not its own finding.
    forbidden = [r"/(root|home|Users)/\w", r"\.\./" + "shared", "DESIGN" + r"\.md"]
    forbidden += ["pypi" + r"\.org", "python" + "hosted", "registry" + r"\.npmjs"]
    pattern = re.compile("|".join(forbidden))
    found = [
        "%s:%d: %s" % (relative(path), number, line.strip()[:100])
        for path in text_files()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_no_python_file_is_longer_than_400_lines():
    long = {relative(path): len(path.read_text("utf-8").splitlines()) for path in python_files()}
    assert not {name: lines for name, lines in long.items() if lines > 400}


def test_no_function_is_longer_than_60_lines():
    long = [
        "%s:%d %s" % (relative(path), node.lineno, node.name)
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60
    ]
    assert not long, "\n".join(long)


def test_what_belongs_to_a_repository_is_there_and_filled():
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", ".ci/run"):
        assert len((ROOT / name).read_text("utf-8").splitlines()) >= 10, name
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "TERMS AND CONDITIONS" in (ROOT / "LICENSE").read_text("utf-8")


def test_device_half_and_benchmarks_are_python_36():
    device = device_files()
    assert "edgeformer/bundle.py" in device
    assert not [name for name in device if name.startswith(HOST_FOLDERS)]
    older = older_files()
    assert "benchmarks/bench.py" in older
    errors = [grammar_error((ROOT / name).read_text("utf-8"), name) for name in older]
    assert not [error for error in errors if error]


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations\n",
        "from __future__ import division, annotations\n",
        "if (n := 3): pass\n",
        "def f(a, /): pass\n",
        "match a:\n    case 1: pass\n",
        "with (open('a') as a, open('b') as b): pass\n",
    ],
)
def test_grammar_guard_refuses_newer_python(source):
    assert grammar_error(source, "x.py")


def test_device_half_imports_nothing_of_the_host_half():
    for name in device_files():
        assert not host_needs(imported_modules(ROOT / name)), name


def test_device_half_imports_only_the_standard_library_numpy_and_itself():
    allowed = set(sys.stdlib_module_names) | {"numpy", "edgeformer"}
    for name in device_files():
        for package in packages(ROOT / name) - allowed:
            owners = [owner.replace(".", "/") + ".py" for owner in OPTIONAL.get(package, [])]
            assert name in owners, "%s imports %s" % (name, package)
            top = imported_modules(ROOT / name, top_level_only=True)
            assert package in top, "%s hides its import of %s" % (name, package)


def test_python_36_runs_every_test_that_does_not_need_the_host_half():
    names = ("repository", "readme", "packaging", "images")
    of_the_repository = {"tests/test_%s.py" % name for name in names}
    tests = {relative(p) for p in python_files() if re.match(r"tests/.*test_\w+\.py$", relative(p))}
    ignored = {
        name
        for name in tests
        for entry in conftest.HOST_ONLY
        if (name + "/").startswith("tests/%s/" % entry)
    }
    assert tests - ignored
    for name in tests - ignored:
        assert not grammar_error((ROOT / name).read_text("utf-8"), name)
        needs = host_needs(imported_modules(ROOT / name, top_level_only=True))
        assert not needs, "%s needs %s: list it in HOST_ONLY, tests/conftest.py" % (name, needs)
    # The host half's own, and what drives an arm64 Python from the host's.
    folders = ("tests/nn/", "tests/export/", "tests/benchmarks/peers/", "tests/arm64/")
    for name in ignored - of_the_repository:
        needs = host_needs(imported_modules(ROOT / name))
        assert needs or name.startswith(folders), "Python 3.6 must run %s: it can" % name


def test_a_missing_package_is_a_failure_and_not_a_skip():
    word = "importor" + "skip"
    assert not [relative(p) for p in python_files() if word in p.read_text("utf-8")]


def declared():
    """Every package that pyproject.toml names: what `make` installs into .venv."""
    project = (ROOT / "pyproject.toml").read_text("utf-8").split("[tool.", 1)[0]
    wanted = project.split("dependencies =", 1)[1]
    return set(re.findall(r'"([\w-]+)(?: ?[><=!]|")', wanted))


def test_every_package_that_is_imported_is_declared():
    known = set(sys.stdlib_module_names) | declared() | ON_REQUEST
    known |= {"edgeformer", "tests", "benchmarks"}
    known |= {path.stem for path in (ROOT / "benchmarks").iterdir()}
    for path in python_files():
        imported = {"protobuf" if name == "google" else name for name in packages(path)}
        assert not imported - known, relative(path)


def test_every_declared_package_is_pinned_for_the_host():
    pins = (ROOT / "requirements/constraints-host.txt").read_text("utf-8")
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in pins.splitlines()}
    wanted = {name.lower().replace("_", "-") for name in declared()}
    assert {"torch", "numpy", "onnxruntime", "ruff", "gguf"} <= wanted
    assert not wanted - pinned - {"tomli"}, "tomli is for Python 3.10 only"


def test_the_nano_never_gets_the_numpy_that_crashes_there():
    pins = (ROOT / "requirements/constraints-py36.txt").read_text("utf-8").splitlines()
    assert "numpy==1.19.4" in pins
    assert "onnxruntime==1.10.0" in pins
    assert "numpy >=1.16.6,!=1.19.5" in (ROOT / "pyproject.toml").read_text("utf-8")
