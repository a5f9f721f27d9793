"""What steps of several tokens cost, from which a draft's length follows.

All by rule and nothing by the clock, so that the same stream takes the same steps wherever and
however often it runs: what is drawn from the logits of several tokens at once may differ in the
last bit from what is drawn token by token, but never from one run to the next.
"""

from typing import Dict, Tuple

from edgeformer.backends import Backend
from edgeformer.generation.drafting import Cost

# SmolLM2-135M on an AMD EPYC, one and two threads, 100 rows (docs/drafting.md). By dialect and
# precision; smaller models have cheaper steps of several tokens, so that this errs towards caution.
MEASURED: Dict[Tuple[str, str], Cost] = {
    ("ort", "fp32"): Cost(2.1, 0.135, 16),
    ("ort", "n8"): Cost(1.15, 0.14, 16),
    ("ort", "n4"): Cost(1.3, 0.26, 16),
    ("portable", "fp32"): Cost(1.16, 0.07, 16),
    ("portable", "int8-dynamic"): Cost(1.4, 0.13, 16),
}
OTHERS = Cost(1.4, 0.25, 16)
# Nobody has measured it yet. Eight is what the engines of a bundle are built to answer at once.
TENSORRT = Cost(1.2, 0.1, 8)


def cost_of(backend: Backend) -> Cost:
    if backend.name == "trt":
        return TENSORRT
    dialect = "portable" if "drop" in backend.abilities else "ort"
    return MEASURED.get((dialect, backend.precision), OTHERS)
