"""Runs the tier `standin`: one pytest for each release of the bindings that is installed here.

`python -m tests.standin.run [RELEASE...] [PYTEST-ARGUMENT...]`; `make test-standin` does it all.
"""

import os
import subprocess
import sys
import tempfile

from tests.standin.libraries import HERE, INSTALLED, ROOT, VARIABLE, releases


def main(arguments):
    chosen = [name for name in arguments if name in releases()] or releases()
    rest = [name for name in arguments if name not in releases()]
    if not chosen or not os.path.isdir(os.path.join(INSTALLED, "pycuda")):
        print("NOT RUN: the tier `standin`; run: make test-standin", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:  # of bundles that all releases are given
        failed = [release for release in chosen if not _passes(release, rest, folder)]
    if failed:
        print("FAILED: standin, " + ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


def _passes(release, rest, folder):
    print("==> standin, TensorRT bindings " + release, file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--maxprocesses=4"]
    variables = {VARIABLE: release, VARIABLE + "_BUNDLES": folder}
    # 8.6 warns of each call that 8.2 has: those are the ones we make on purpose.
    variables["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
    command += rest or [HERE]
    return not subprocess.run(command, cwd=ROOT, env=dict(os.environ, **variables)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
