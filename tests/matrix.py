"""Runs tests of the device half on each Python that a board may have, with old and new libraries.

`python -m tests.matrix [PYTHON...] [-- PYTEST-ARGUMENT...]`; `make test-matrix` does it all. An
interpreter is one on the PATH or of pyenv; the environments are kept in .venv-matrix/.
"""

import glob
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOME = os.path.join(ROOT, ".venv-matrix")
DEVICE_ONLY = "EDGEFORMER_DEVICE_ONLY"  # tests/conftest.py leaves out the host half's tests

# The oldest and the newest numpy and onnxruntime with a wheel for each Python, of those we support
# (onnxruntime 1.10 and newer). 3.6 with the Nano's numpy is `make test`.
MATRIX = (
    ("3.6", "numpy==1.16.6", "onnxruntime==1.10.0"),
    ("3.8", "numpy==1.17.5", "onnxruntime==1.10.0"),
    ("3.8", "numpy==1.24.4", "onnxruntime==1.19.2"),
    ("3.10", "numpy==1.21.6", "onnxruntime==1.12.1"),
    ("3.10", "numpy==2.2.6", "onnxruntime==1.23.2"),
    ("3.11", "numpy==1.24.4", "onnxruntime==1.15.1"),
    ("3.11", "numpy==2.4.6", "onnxruntime==1.32.0"),
    ("3.13", "numpy==2.1.3", "onnxruntime==1.20.1"),
    ("3.13", "numpy==2.5.5", "onnxruntime==1.32.0"),
)
# What else the tests need. Python 3.6's is the list that `make test` has.
REST = {
    "3.6": None,
    "3.8": ("protobuf<4", "pytest==8.3.5", "pytest-xdist==3.6.1", "jinja2==3.1.6"),
}
NEWER = ("pytest==8.3.5", "pytest-xdist==3.8.0", "jinja2==3.1.6", "llguidance==1.9.1")
TESTS = ("tests/generation", "tests/backends", "tests/test_model.py")
TESTS += ("tests/test_bundle.py", "tests/test_cli.py", "tests/test_imports.py")
TEXT = ("tests/text",)  # nothing there asks for numpy: once for each Python


def interpreter(version):
    """The path of a Python of this version, or None."""
    roots = {os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")}
    found = [shutil.which("python" + version)]
    for root in roots - {""}:
        pattern = os.path.join(root, "versions", version + ".*", "bin", "python")
        found += sorted(glob.glob(pattern))
    for path in found:
        if path and _says(path) == version:
            return path
    return None


def _says(python):
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    told = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return told.stdout.decode("ascii", "replace").strip()


def environment(python, row):
    """The Python of this row's environment, which is made when it is not there yet."""
    version, *words = row
    rest = REST.get(version, NEWER)
    words += ["--no-deps", *_nanos()] if rest is None else rest
    folder = os.path.join(HOME, "-".join(row).replace("==", "-"))
    mine, stamp = (os.path.join(folder, name) for name in ("bin/python", ".installed"))
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == " ".join(words):
                return mine
    print("==> making " + os.path.relpath(folder, ROOT), file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [mine, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    if rest is None:
        subprocess.run(pip + ["pip==21.3.1"], check=True)
    subprocess.run(pip + ["--only-binary=:all:", *words], check=True)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(" ".join(words))
    return mine


def _nanos():
    """What .venv36 holds, but for the two that a row names."""
    path = os.path.join(ROOT, "requirements", "constraints-py36.txt")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return [line for line in lines if not line.startswith(("numpy", "onnxruntime"))]


def passes(row, arguments):
    python = interpreter(row[0])
    if python is None:
        print("#" * 80, file=sys.stderr)
        print("NOT RUN: there is no Python %s here" % row[0], file=sys.stderr)
        print("#" * 80, file=sys.stderr, flush=True)
        return os.environ.get("CI") != "true"
    command = [environment(python, row), "-m", "pytest", "-q", "-m", "not slow", "-n", "auto"]
    command += ["--maxprocesses=4", "-p", "no:cacheprovider", *(arguments or _tests(row))]
    print("==> Python %s, %s, %s" % row, file=sys.stderr, flush=True)
    variables = dict(os.environ, OMP_NUM_THREADS="1", **{DEVICE_ONLY: "1"})
    return not subprocess.run(command, cwd=ROOT, env=variables).returncode


def _tests(row):
    newest = [each for each in MATRIX if each[0] == row[0]][-1]
    return TESTS + TEXT if row is newest else TESTS


def main(words):
    cut = words.index("--") if "--" in words else len(words)
    versions, arguments = words[:cut], words[cut + 1 :]
    unknown = set(versions) - {row[0] for row in MATRIX}
    if unknown:
        print("error: no row has Python %s" % ", ".join(sorted(unknown)), file=sys.stderr)
        return 2
    rows = [row for row in MATRIX if not versions or row[0] in versions]
    failed = [" ".join(row) for row in rows if not passes(row, arguments)]
    if failed:
        print("FAILED: " + "; ".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
