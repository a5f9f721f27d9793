"""Documents with several cases and comparisons, for reports: made-up rounds, and what they give."""

import json

from tests.bench.documents import case, document, settled, summarized, turn

HOSTILE = "</svg><script>alert(1)</script> $x^{2$ | *b* `c` \"q\" 'r' \u202e]]> &amp;"
ROUNDS = 10  # as many as an interval of 99.8 % needs


def model_case(precision, backend="ort", step=0.002, model="tiny", spread=1.02):
    """Rounds whose tokens take `step` seconds, from `spread` times less to as many times more."""
    made = case("%s %s %s" % (model, precision, backend), step)
    made.update(backend=backend, precision=precision)
    made["model"].update(name=model, precision=precision)
    made["rounds"] = rounds(step, spread)
    return summarized(made, 0.5)


def rounds(step, spread=1.02):
    found = []
    for index in range(ROUNDS):
        token = step * spread ** (2 * index / (ROUNDS - 1) - 1)
        rows = {key: [token * (1 + int(key) / 1e3)] * 2 for key in ("8", "64", "512")}
        found.append(dict(turn(index, token), rows_s=rows))
    return found


def comparison(a, b, figure="token_s"):
    return {"a": a["name"], "b": b["name"], "figure": figure}


def board_document():
    """TensorRT and ONNX Runtime on a board, two precisions, all parity passed."""
    made = document()
    made["settings"].update(rounds=ROUNDS, rows=[8, 64, 512])
    cases = [
        model_case("fp32", "ort", 0.004, spread=1.0),
        model_case("fp32", "trt", 0.002),
        model_case("fp16", "trt", 0.001),
    ]
    made["cases"] = cases
    made["comparisons"] = [
        comparison(cases[0], cases[1]),
        comparison(cases[0], cases[2]),
        comparison(cases[1], cases[2]),
    ]
    sample = made["samples"][0]
    made["samples"] = [
        dict(sample, t_s=0.5 * i, case=cases[i % 3]["name"], available_bytes=10**9 + i * 10**6)
        for i in range(9)
    ]
    return settled(made)


def board_report(*benches):
    """A board's report with one bundle for each of these documents; None: it was not measured."""
    first = board_document()
    model = first["cases"][0]["model"]
    report = dict.fromkeys(("gpu", "gpu_error", "power_source"))
    for key in ("format", "made", "seconds", "command", "edgeformer", "commit", "machine"):
        report[key] = first[key]
    report.update(kind="board", is_board=False, complete=True, bundles=[])
    for bench in benches:
        bundle = {"model": model, "files": {"files": 5, "bytes": 100, "error": None}}
        bundle.update(engines=[], checks=[], numerics=[], bench=bench)
        bundle["bench_error"] = None if bench else "no bandwidth left"
        report["bundles"].append(bundle)
    return report


def save(folder, name, made):
    path = str(folder / name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(made, file)
    return path
