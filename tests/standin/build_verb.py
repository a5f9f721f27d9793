"""`python -m edgeformer build` in a process of its own, and what its plans tell of the calls."""

import hashlib
import os
import re
import subprocess
import sys

from edgeformer.bundle import Bundle
from edgeformer.engines.record import engine_sets, plan_path
from tests.standin import libraries
from tests.standin.conftest import FOLDER, RELEASE

FP32 = ("--precision", "fp32", "--layout", "shared")  # one plan, in every release
FAULTS = "EDGEFORMER_STANDIN_BUILD"  # what tests/standin/builder.c listens to


def started(path, *words, without=(), faults="", **options):
    """The verb as a running process."""
    variables = {FAULTS: faults} if faults else {}
    env = libraries.environment(RELEASE, FOLDER, without, **variables)
    command = [sys.executable, "-m", "edgeformer", "build", path, "--memory", "4000"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command + list(words), cwd=libraries.ROOT, env=env, stdout=pipe, stderr=pipe, **options
    )


def build(path, *words, **options):
    """(status, stderr) of the verb. It never writes to stdout."""
    process = started(path, *words, **options)
    out, err = process.communicate(timeout=120)
    assert out == b""
    text = err.decode("utf-8")
    assert "Traceback" not in text, text
    return process.returncode, text


def only_set(path):
    """(bundle, its one set of engines); none is refused."""
    bundle = Bundle.open(path)
    sets, refused = engine_sets(bundle)
    assert refused == []
    assert len(sets) == 1
    return bundle, sets[0]


def leftovers(path):
    """Names in engines/ that are neither sets nor the builder's two files."""
    names = os.listdir(os.path.join(path, "engines"))
    known = re.compile(r"(fp16|fp32|int8)-(split|shared)-[0-9a-f]{16}(\.\d+)?\Z|timings-|\.lock\Z")
    return sorted(name for name in names if not known.match(name))


def failed(path, *words, **options):
    """The error of a build that must fail and leave nothing."""
    status, err = build(path, *words, **options)
    assert status == 2, err
    bundle = Bundle.open(path)
    assert engine_sets(bundle) == ([], [])
    if os.path.isdir(os.path.join(path, "engines")):
        assert leftovers(path) == []
    error = err[err.index("error: ") :]
    assert "{" not in error or "ForeignNode" in error, "a message with an unfilled place"
    return error


def check_whole(path):
    """Whatever counts as a set is complete, to the last byte."""
    bundle = Bundle.open(path)
    usable, refused = engine_sets(bundle)
    assert refused == []
    for engines in usable:
        for engine in engines.engines.values():
            with open(plan_path(bundle, engines, engine), "rb") as file:
                assert hashlib.sha256(file.read()).hexdigest() == engine.sha256
    return usable


class Calls:
    """What the real bindings passed on to the builder for one plan."""

    def __init__(self, bundle, engines, kind):
        import tensorrt

        with open(plan_path(bundle, engines, engines.engines[kind]), encoding="ascii") as file:
            remarks = [line[2:].split() for line in file if line.startswith("# ")]
        names = {int(flag): name for name, flag in tensorrt.BuilderFlag.__members__.items()}
        self.flags = {names[int(words[1])] for words in remarks if words[0] == "flag"}
        numbers = {words[0]: int(words[1]) for words in remarks if words[0] in SCALARS}
        self.network, self.workspace = numbers["network"], numbers["workspace"]
        self.timings, self.tactics = numbers["timings"], numbers.get("tactics")
        # {layer: (precision, type of its first output)}; None: not set, 0: FP32
        self.layers = {}
        for words in remarks:
            if words[0] == "layer":
                types = [None if text == "-1" else int(text) for text in words[1:3]]
                self.layers[" ".join(words[3:])] = tuple(types)
        self.formats = {words[2]: int(words[1]) for words in remarks if words[0] == "formats"}


SCALARS = ("network", "workspace", "timings", "tactics")
