"""A document as a run leaves it, for tests to change: made-up rounds, and what they give."""

from edgeformer.bench.summary import compared, summary


def settled(made):
    """The document, with the summaries and verdicts that its rounds give now."""
    cases = {case["name"]: case for case in made["cases"]}
    for one in made["cases"]:
        summarized(one, (one["summary"] or {}).get("roofline_share"))
    for entry in made["comparisons"]:
        pair = cases[entry["a"]], cases[entry["b"]]
        verdict = compared(*pair, entry["figure"], made["settings"]["confidence"])
        entry.update(verdict._asdict())
    return made


def summarized(made, share):
    """The case, with the summary that its rounds give. `share`: of the roofline."""
    made["summary"] = summary(made["rounds"])
    if made["summary"] is not None:
        made["summary"]["roofline_share"] = share
    return made


def turn(order, step):
    """A round whose tokens take `step` seconds each."""
    return {
        "order": order,
        "at_s": 1.5 * order,
        "load_s": 0.4,
        "warmup_s": 0.05,
        "first_token_s": {"16": [0.02, 0.021]},
        "token_s": [step] * 3,
        "outside_s": [0.00002] * 3,
        "rows_s": {"64": [step, step]},
        "loaded_rss_bytes": 90000000,
        "peak_rss_bytes": 100000000,
        "huge_bytes": 0,
        "energy_j_per_token": None,
        "power_w": None,
        "available_low_bytes": 5000000000,
        "gpu_load": None,
        "temperature_c": None,
        "throttled": None,
    }


def case(name="tiny-rope fp32 ort", step=0.002):
    return {
        "name": name,
        "backend": "ort",
        "precision": "fp32",
        "threads": 1,
        "engine": None,
        "model": {
            "name": "tiny-rope",
            "parameters": 25000,
            "weights_bytes": 100000,
            "files_bytes": 150000,
            "sha256": "0" * 64,
            "precision": "fp32",
            "dialect": "portable",
            "capacity": 100,
            "chunk": 16,
            "quality": None,
        },
        "parity": {"passed": True, "what": "64 of 64 golden tokens"},
        "error": None,
        "rounds": [turn(0, step), turn(1, step)],
        "summary": None,
    }


def document():
    return settled(
        {
            "format": 1,
            "kind": "bench",
            "made": "2026-11-30T15:00:00Z",
            "seconds": 6.0,
            "command": ["bench", "bundles/tiny"],
            "edgeformer": "0.1.0",
            "commit": None,
            "complete": True,
            "machine": {
                "processor": "some CPU",
                "architecture": "x86_64",
                "cpus": 2,
                "governor": None,
                "memory_bytes": 8000000000,
                "system": "Linux",
                "python": "3.6.15",
                "packages": {
                    "numpy": "1.19.4",
                    "onnxruntime": "1.10.0",
                    "tensorrt": None,
                    "pycuda": None,
                },
                "board": None,
                "container": False,
                "huge_pages": "madvise",
                "glibc_tunables": None,
                "load_average": [0.1, 0.2, 0.3],
                "bandwidth_bytes_per_s": None,
            },
            "settings": {
                "rounds": 2,
                "new_tokens": 4,
                "prompt_tokens": [16],
                "rows": [64],
                "seed": 1,
                "confidence": 0.998,
            },
            "cases": [case(), case("tiny-rope n8 ort", 0.001)],
            "comparisons": [
                {"a": "tiny-rope fp32 ort", "b": "tiny-rope n8 ort", "figure": "token_s"}
            ],
            "samples": [
                {
                    "t_s": 0.5,
                    "available_bytes": 5000000000,
                    "case": "tiny-rope fp32 ort",
                    "phase": "decode",
                    "power_w": None,
                    "gpu_load": None,
                    "temperature_c": None,
                    "cpu_load": 0.5,
                }
            ],
        }
    )
