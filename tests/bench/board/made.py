"""A report such as a Nano would send: real rounds of this machine under a Nano's name.

It exists in memory only: no file of the repository may look like a board's.
"""

import json

from edgeformer.bench import conditions
from edgeformer.bench.board import work
from edgeformer.bench.cases import Asked, Case, model_of, settings_of
from edgeformer.bench.measure import measure
from edgeformer.bundle import Bundle
from edgeformer.device import board, memory
from tests import bundles
from tests.device import boards

GPU = {
    "tensorrt": "8.2.1.8",
    "name": "NVIDIA Tegra X1",
    "compute_capability": "5.3",
    "has_flags": True,
    "has_types": False,
    "fast_int8": False,
    "tactics": ["CUBLAS"],
}
ASKED = Asked(rounds=10, new_tokens=5, prompt_tokens=(4,), rows=(8,))


_made = []  # its text, once for all tests of a run: 20 processes


def nano_report(folder):
    """A copy of the report."""
    if not _made:
        _made.append(json.dumps(resummed(_report(folder))))
    return json.loads(_made[0])


def _report(folder):
    """A report of one bundle, on ONNX Runtime and on "engines" that are ONNX Runtime again."""
    root = boards.nano(folder)
    bundle = Bundle.open(bundles.LEARNED)
    model = model_of(bundle, "fp32")
    names = ("tiny-learned ort", "tiny-learned fp32-split")
    cases = [Case(name, bundle.path, "ort", "fp32", 1, 32, model) for name in names]
    bench = measure(cases, settings_of(ASKED, cases), ["bench"], lambda line: None).document
    # of a copy without its history nobody can look up a commit
    commit = (conditions.commit() or "c" * 40).partition("-")[0]
    system = "Linux-4.9.253-tegra-aarch64-with-Ubuntu-18.04-bionic"
    machine = dict(bench["machine"], architecture="aarch64", system=system)
    machine["board"] = dict(board.read_board(root)._asdict())
    machine["memory_bytes"] = memory.machine_memory(root).total_bytes
    for sample in bench["samples"]:
        sample["available_bytes"] = 2 << 30
    for case in bench["cases"]:
        for turn in case["rounds"]:
            turn.update(available_low_bytes=1 << 30, power_w=4.0)
            turn["energy_j_per_token"] = 4.0 * sum(turn["token_s"]) / len(turn["token_s"])
    bench.update(machine=machine, commit=commit)
    checks = [("ort", None), ("fp32-split", "trt: engines fp32-split-0")]
    engines = {"precision": "fp32", "layout": "split", "key": "fp32-split-0", "error": None}
    engines.update(seconds=30.5, peak_bytes=1 << 29, bytes=1 << 20, cache_dtype="float32")
    missing = dict.fromkeys(engines)
    missing.update(precision="fp16", layout="split", error="no kernel fits")
    report = {
        "format": 1,
        "kind": "board",
        "made": bench["made"],
        "seconds": bench["seconds"] + 60,
        "command": ["edgeformer", "bench", "--board-report"],
        "edgeformer": bench["edgeformer"],
        "commit": commit,
        "is_board": work.is_board(machine),
        "complete": True,
        "machine": machine,
        "gpu": GPU,
        "gpu_error": None,
        "power_source": "INA3221, POM_5V_IN",
        "bundles": [
            {
                "model": model,
                "files": {"files": 5, "bytes": 100, "error": None},
                "engines": [missing, engines],
                "checks": [_check(run, reason) for run, reason in checks],
                "numerics": [],
                "bench": bench,
                "bench_error": None,
            }
        ],
    }
    return report


def resummed(report):
    """With summaries and comparisons of its rounds."""
    from edgeformer.bench.summary import comparisons, summary

    for bundle in report["bundles"]:
        bench = bundle["bench"]
        for case in bench["cases"]:
            case["summary"] = summary(case["rounds"])
        bench["comparisons"] = comparisons(bench["cases"], bench["settings"]["confidence"])
    return report


def _check(run, reason):
    found = {"run": run, "passed": True, "what": "26 of 26", "precision": "fp32", "error": None}
    return dict(found, reason=reason)
