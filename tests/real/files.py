"""Where `make real-model` keeps its files. Both Pythons read this."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "SmolLM2-135M-Instruct.gguf"
CACHE = os.path.join(ROOT, ".cache")
REFERENCE = os.path.join(CACHE, "smollm2-reference.json")
BUNDLE = os.path.join(ROOT, "bundles", "smollm2-135m-instruct")
VARIABLE = "EDGEFORMER_REAL"  # set by `make real-model`
