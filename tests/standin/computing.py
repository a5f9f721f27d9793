"""Engines that ONNX Runtime computes in a process that is not the test's own.

`tests/standin/site/tensorrt.py` starts it where the environment asks for it.
"""

import os

from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_sets
from tests.standin import arithmetic, libraries

kept = []  # the stand-ins call it as long as they live


def start(paths):
    """Compute the engines that these bundles have by now."""
    release = os.environ[libraries.VARIABLE]
    folder = os.environ[libraries.VARIABLE + "_FOLDER"]
    standin = libraries.Standin(folder, libraries.family_of(release))
    for path in paths:
        bundle = Bundle.open(path)
        for engines in engine_sets(bundle)[0]:
            arithmetic.compute_built(bundle, engines)
    wrong = os.environ.get(libraries.WRONG, "").encode("ascii")
    executor = spoiling(wrong) if wrong else arithmetic.execute
    kept.append((standin, executor))
    standin.set_executor(executor)


def spoiling(wrong):
    """The executor, but one output is a quarter too large."""

    @libraries.EXECUTOR
    def spoiled(number, count, names, addresses, sizes, ranks):
        status = arithmetic.execute(number, count, names, addresses, sizes, ranks)
        for index in range(count):
            if names[index] == wrong:
                shape = tuple(sizes[8 * index + axis] for axis in range(ranks[index]))
                half = number in arithmetic._halves
                view = arithmetic.memory(addresses[index], shape, "float16" if half else "float32")
                view *= view.dtype.type(1.25)
        return status

    return spoiled
