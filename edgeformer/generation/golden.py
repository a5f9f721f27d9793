"""The golden tokens of a bundle, computed again on this machine."""

from typing import List, NamedTuple

import numpy as np

from edgeformer.backends import Backend
from edgeformer.errors import CheckFailed
from edgeformer.generation.stream import prefill
from edgeformer.manifest import Manifest


class Mismatch(NamedTuple):
    """A step at which another token was likelier than the golden one."""

    step: int
    expected: int
    found: int
    margin: float  # logit of the found token minus logit of the expected one


def golden_mismatches(backend: Backend, manifest: Manifest) -> List[Mismatch]:
    """Steps with a wrong token. Each is fed the golden text, so one error does not hide the rest.

    Empty exactly when greedy decoding gives the golden tokens.
    """
    golden = manifest.golden
    backend.owner = object()
    backend.truncate(0)
    chunk = min(manifest.chunk, manifest.capacity)
    logits = prefill(backend, golden.prompt_ids, chunk, "logits").logits[0]
    wrong = []
    for step, expected in enumerate(golden.greedy_ids):
        if not np.isfinite(logits).all():
            raise CheckFailed(
                f"golden step {step} gave {np.count_nonzero(~np.isfinite(logits))} logits of "
                f"{len(logits)} that are no numbers; export the bundle again"
            )
        found = int(logits.argmax())
        if found != expected:
            margin = float(logits[found]) - float(logits[expected])
            wrong.append(Mismatch(step, expected, found, margin))
        if step + 1 < len(golden.greedy_ids):
            position = len(golden.prompt_ids) + step
            logits = backend.step([expected], [position], [0]).logits[0]
    return wrong
