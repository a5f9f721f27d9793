"""`bench` drives the TensorRT backend in its own processes, and believes it nothing."""

import json
import subprocess
import sys

from edgeformer.bench import document as documents
from tests import bundles
from tests.standin import libraries
from tests.standin.arithmetic import add_engines
from tests.standin.conftest import FOLDER, RELEASE


def test_an_engine_without_arithmetic_is_timed_beside_onnxruntime_and_gets_no_ratio(tmp_path):
    path = bundles.copied(bundles.ROPE, tmp_path)
    add_engines(path, compute=False)  # its logits are all the same
    words = ["--backend", "trt,ort", "--rounds", "2", "--new-tokens", "8", "--rows", "20,70"]
    done = subprocess.run(
        [sys.executable, "-m", "edgeformer", "bench", path, *words, "--threads", "1", "--json"],
        cwd=libraries.ROOT,
        env=libraries.environment(RELEASE, FOLDER, ()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    documents.check(found)
    trt, ort = found["cases"]
    assert (trt["name"], ort["name"]) == ("tiny-rope fp32 trt", "tiny-rope fp32 ort")
    assert (trt["threads"], ort["threads"]) == (0, 1)
    assert trt["error"] is None and len(trt["rounds"]) == 2
    assert len(trt["rounds"][0]["token_s"]) == 7 and set(trt["rounds"][0]["rows_s"]) == {"20", "70"}
    assert (trt["parity"]["passed"], ort["parity"]["passed"]) == (False, True)
    packages = found["machine"]["packages"]
    assert all(packages[name] for name in ("numpy", "onnxruntime", "tensorrt", "pycuda"))
    assert {c["verdict"] for c in found["comparisons"]} == {"not compared"}
    assert "parity of tiny-rope fp32 trt" in found["comparisons"][0]["why"]
