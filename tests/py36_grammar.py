"""Is the device half written in Python 3.6? Run as `python -m tests.py36_grammar [FILE...]`.

On a real 3.6 each file is compiled. Elsewhere the parser is asked for 3.6's grammar: quick enough
for a commit hook, but it lets through what only a 3.6 refuses, so `make lint` runs both.
"""

import ast
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HOST_FOLDERS = ("edgeformer/nn/", "edgeformer/export/")
LATER_FUTURE = re.compile(r"^from __future__ import .*\bannotations\b", re.MULTILINE)


def device_files():
    """Paths, relative to the repository, of every Python file of the device half."""
    return [name for name in _python_files("edgeformer") if not name.startswith(HOST_FOLDERS)]


def older_files():
    """Those that 3.6 must compile: the device half, and the benchmarks, which run there too."""
    return device_files() + _python_files("benchmarks")


def _python_files(top):
    found = []
    for folder, _, names in os.walk(os.path.join(ROOT, top)):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/")
            if name.endswith(".py"):
                found.append(path)
    return sorted(found)


def grammar_error(source, name):
    """Return what Python 3.6 has against this source text, or None."""
    if LATER_FUTURE.search(source):
        return "%s: Python 3.6 does not know `from __future__ import annotations`" % name
    try:
        if sys.version_info < (3, 8):
            compile(source, name, "exec")
        else:
            ast.parse(source, name, feature_version=(3, 6))
    except SyntaxError as error:
        return "%s:%s: not Python 3.6: %s" % (name, error.lineno, error.msg)
    return None


def main(names):
    """Check those of the named files that 3.6 must compile, or all of them."""
    older = older_files()
    chosen = [name for name in names if name in older] if names else older
    errors = []
    for name in chosen:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            error = grammar_error(file.read(), name)
        if error:
            errors.append(error)
    print("\n".join(errors) or "%d files are Python 3.6" % len(chosen))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
