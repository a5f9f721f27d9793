"""A document as a run leaves it, for tests to change. Its figures are made up."""

import copy


def figure(median, low, high, **more):
    return dict({"median": median, "low": low, "high": high, "n": 2}, **more)


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
        "summary": {
            "load_s": figure(0.4, 0.4, 0.4),
            "warmup_s": figure(0.05, 0.05, 0.05),
            "first_token_s": {"16": figure(0.0205, 0.0205, 0.0205)},
            "prefill_tokens_per_s": {"16": figure(780.0, 780.0, 780.0)},
            "token_s": figure(step, step, step, p95=step, p99=step, spread=0.0),
            "tokens_per_s": figure(1 / step, 1 / step, 1 / step),
            "outside_s": figure(0.00002, 0.00002, 0.00002),
            "rows_s": {"64": figure(step, step, step)},
            "peak_rss_bytes": figure(100000000, 100000000, 100000000),
            "available_low_bytes": figure(5000000000, 5000000000, 5000000000),
            "energy_j_per_token": None,
            "noise": 0.0,
            "roofline_share": None,
        },
    }


COMPARISON = {
    "a": "tiny-rope fp32 ort",
    "b": "tiny-rope n8 ort",
    "figure": "token_s",
    "ratio": None,
    "low": None,
    "high": None,
    "confidence": None,
    "verdict": "not compared",
    "why": "2 rounds; an interval of 99.8 % needs 10",
}


def document():
    return copy.deepcopy(
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
            "comparisons": [COMPARISON],
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
