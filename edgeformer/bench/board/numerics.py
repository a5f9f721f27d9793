"""Which layer of an engine is the first to differ from ONNX Runtime, seen in the rows it caches.

Both backends are fed the same tokens. Layer n's keys and values are made from what layers 0 to
n - 1 gave, so the first row that is off names the place behind which to look. Nothing else of a
layer can be read from an engine without building another one.
"""

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from edgeformer.backends import Backend
from edgeformer.contract import cache_names
from edgeformer.generation.loop import prefill
from edgeformer.manifest import Manifest

STEPS = 8  # tokens after the prompt
# Largest difference of a layer's rows, as a share of the largest of its numbers. FP32: the order
# of sums. FP16: 11 bits a number, a few roundings a layer. INT8: 8 bits a product.
LIMITS = {"fp32": 1e-3, "fp16": 0.02, "int8": 0.1}


class Trace(NamedTuple):
    """What a backend computed of the golden text."""

    values: "np.ndarray"  # float32 [2 * n_layers, rows, kv_width]
    logits: "np.ndarray"  # float32 [1 + STEPS, vocab]


def trace(backend: Backend, manifest: Manifest) -> Trace:
    """The golden prompt at once and some golden tokens one by one."""
    golden = manifest.golden
    backend.owner = object()
    backend.truncate(0)
    chunk = min(manifest.chunk, manifest.capacity)
    logits = [prefill(backend, golden.prompt_ids, chunk, "logits").logits[0]]
    for step, token in enumerate(golden.greedy_ids[:STEPS]):
        position = len(golden.prompt_ids) + step
        if position < manifest.capacity:
            logits.append(backend.step([token], [position], [0]).logits[0])
    return Trace(backend.read_rows(0, backend.cached).values, np.stack(logits))


def compared(wanted: Trace, found: Trace, precision: str, layers: int) -> Dict[str, Any]:
    """Errors layer by layer; null where a number is not finite, which is off, too."""
    limit = LIMITS[precision]
    names = cache_names(layers)
    errors = [_error(a, b) for a, b in zip(wanted.values, found.values)]
    off = [name for name, error in zip(names, errors) if _is_off(error, limit)]
    logits = _error(wanted.logits, found.logits)
    if not off and _is_off(logits, limit):
        off = ["logits"]
    return {
        "limit": limit,
        "rows": int(wanted.values.shape[1]),
        "layers": [{"name": name, "error": error} for name, error in zip(names, errors)],
        "logits_error": logits,
        "first_off": off[0] if off else None,
        "what": _told(off[:1]),
    }


def _is_off(error: Optional[float], limit: float) -> bool:
    return error is None or error > limit


def _error(wanted: "np.ndarray", found: "np.ndarray") -> Optional[float]:
    largest = float(np.abs(wanted).max())
    error = float(np.abs(wanted - found).max()) / max(largest, 1e-9)
    return error if np.isfinite(error) else None


def _told(off: List[str]) -> str:
    if not off:
        return "no layer's rows and no logits are off by more than the limit"
    if off == ["logits"]:
        return "all cached rows agree: the last layer, the last norm or the head is off"
    number, _, kind = off[0].partition(".")
    before = "the embedding" if number == "0" else f"layer {int(number) - 1}"
    return f"the {kind}s of layer {number} are the first that are off: look there or in {before}"
