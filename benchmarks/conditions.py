"""Under what conditions a number was measured. Python 3.6, standard library and numpy."""

import os
import platform
from typing import Any, Dict

import numpy as np
import onnxruntime

import edgeformer
from edgeformer.targets import processor


def conditions(model: "edgeformer.Model", **more: Any) -> Dict[str, Any]:
    """Machine, versions and model, to stand beside every figure."""
    manifest = model.bundle.manifest
    return dict(
        machine=processor(),
        cores=len(os.sched_getaffinity(0)),
        system=platform.platform(),
        python=platform.python_version(),
        numpy=np.__version__,
        onnxruntime=onnxruntime.__version__,
        edgeformer=edgeformer.__version__,
        bundle=manifest.name,
        weights_sha256=manifest.files["weights.bin"].sha256[:12],
        vocab_size=manifest.model["vocab_size"],
        capacity=manifest.capacity,
        precision=manifest.precision,
        backend=model.backend.name,
        threads=model.backend.threads,
        **more,
    )


def shown(values: Dict[str, Any]) -> str:
    """Conditions as one indented block of text."""
    return "\n".join(f"  {key}: {value}" for key, value in values.items())
