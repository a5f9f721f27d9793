"""Documents with several cases and comparisons, for reports. Their figures are made up."""

import json

from tests.bench.documents import case, document, figure, turn

HOSTILE = "</svg><script>alert(1)</script> $x^{2$ | *b* `c` \"q\" 'r' \u202e]]> &amp;"


def model_case(precision, backend="ort", step=0.002, model="tiny"):
    made = case("%s %s %s" % (model, precision, backend), step)
    made.update(backend=backend, precision=precision)
    made["model"].update(name=model, precision=precision)
    rows = {key: figure(step * (1 + int(key) / 1e3), step, 2 * step) for key in ("8", "64", "512")}
    made["summary"].update(rows_s=rows, roofline_share=0.5)
    made["rounds"] = [turn(0, step), turn(1, step)]
    return made


def comparison(a, b, ratio=0.5, verdict="b faster", **more):
    made = {"a": a["name"], "b": b["name"], "figure": "token_s", "why": None}
    made.update(ratio=ratio, low=ratio * 0.98, high=ratio * 1.02, confidence=0.998)
    made.update(verdict=verdict, **more)
    return made


def board_document():
    """TensorRT and ONNX Runtime on a board, two precisions, all parity passed."""
    made = document()
    cases = [
        model_case("fp32", "ort", 0.004),
        model_case("fp32", "trt", 0.002),
        model_case("fp16", "trt", 0.001),
    ]
    made["cases"] = cases
    made["comparisons"] = [
        comparison(cases[0], cases[1]),
        comparison(cases[0], cases[2], 0.25),
        comparison(cases[1], cases[2], 0.5),
    ]
    sample = made["samples"][0]
    made["samples"] = [
        dict(sample, t_s=0.5 * i, case=cases[i % 3]["name"], available_bytes=10**9 + i * 10**6)
        for i in range(9)
    ]
    return made


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
