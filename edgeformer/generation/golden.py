"""The golden tokens of a bundle, computed again on this machine."""

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgeformer.backends import Backend
from edgeformer.errors import CheckFailed
from edgeformer.generation.loop import prefill
from edgeformer.manifest import Manifest
from edgeformer.manifest_golden import Limits, Top


class Mismatch(NamedTuple):
    """A step at which another token was likelier than the golden one."""

    step: int
    expected: int
    found: int
    margin: float  # logit of the found token minus logit of the expected one


class Comparison(NamedTuple):
    """A golden run against PyTorch in float32. Of its logits a bundle keeps the best of each step:
    the logit error is that of these, the KL (nats) that of these and of all others taken together.
    """

    mismatches: List[Mismatch]
    steps: int
    largest_logit_error: float
    largest_kl: float

    @property
    def top1(self) -> float:
        return 1 - len(self.mismatches) / self.steps

    def passed(self, precision: str, limits: Dict[str, Limits]) -> Optional[bool]:
        """float32: every token is the golden one; else within the bundle's limits; None: it has
        none for this precision."""
        if precision == "fp32":
            return not self.mismatches
        allowed = limits.get(precision)
        return None if allowed is None else self.beyond(allowed) is None

    def beyond(self, limits: Limits) -> Optional[str]:
        """What is worse than these limits, or None."""
        for what, found, most in (
            ("logit error", self.largest_logit_error, limits.logit_error),
            ("KL", self.largest_kl, limits.kl),
        ):
            if not found <= most:
                return f"the largest {what} is {found:.3g}, allowed are {most:g}"
        if self.top1 < limits.top1:
            return (
                f"{self.top1:.1%} of the likeliest tokens are PyTorch's, wanted {limits.top1:.0%}"
            )
        return None

    def __str__(self) -> str:
        return (
            f"{self.steps - len(self.mismatches)} of {self.steps} likeliest tokens are PyTorch's, "
            f"largest logit error {self.largest_logit_error:.2g}, KL at most {self.largest_kl:.2g}"
        )


def golden_mismatches(backend: Backend, manifest: Manifest) -> List[Mismatch]:
    """Steps with a wrong token; empty exactly when greedy decoding gives the golden tokens."""
    return golden_run(backend, manifest).mismatches


def golden_run(backend: Backend, manifest: Manifest) -> Comparison:
    """Every step is fed the golden text, so that one error does not hide the rest."""
    golden = manifest.golden
    backend.owner = object()
    backend.truncate(0)
    chunk = min(manifest.chunk, manifest.capacity)
    logits = prefill(backend, golden.prompt_ids, chunk, "logits").logits[0]
    wrong = []
    largest_error = largest_kl = 0.0
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
        error, kl = _distance(logits, golden.top, step)
        largest_error, largest_kl = max(largest_error, error), max(largest_kl, kl)
        if step + 1 < len(golden.greedy_ids):
            position = len(golden.prompt_ids) + step
            logits = backend.step([expected], [position], [0]).logits[0]
    return Comparison(wrong, len(golden.greedy_ids), largest_error, largest_kl)


STEP_SIZES = (2, 4, 8, 16)  # tokens; drafts are no longer


def check_exact(
    logits: Callable[[Sequence[int], int], "np.ndarray"], ids: Sequence[int], chunk: int
) -> str:
    """Whether steps of several tokens give the bits of steps of one; raises CheckFailed if not.

    `logits(ids, start)` computes a step of at most `chunk` tokens: float32 [len(ids), vocab], for
    these at positions from `start` on. Returns what was found, for a person.
    """
    sizes = [size for size in STEP_SIZES if size <= chunk]
    alone = np.concatenate([logits([token], start) for start, token in enumerate(ids)])
    for size in sizes:
        parts = [logits(ids[at : at + size], at) for at in range(0, len(ids), size)]
        together = np.concatenate(parts)
        wrong = (together != alone).any(axis=1)
        if wrong.any():
            error = float(np.abs(together - alone).max())
            raise CheckFailed(
                f"steps of {size} tokens give other logits than steps of one at {wrong.sum()} of "
                f"{len(ids)} tokens, by at most {error:.2g}: the bundle promises exact steps, and "
                "this onnxruntime does not keep that here; export it without --exact-steps"
            )
    return f"steps of {', '.join(map(str, [1, *sizes]))} tokens give the same bits"


def check_exact_steps(backend: Backend, manifest: Manifest) -> str:
    """`check_exact` of a bundle's golden text."""
    golden = manifest.golden
    backend.owner = object()

    def logits(ids: Sequence[int], start: int) -> "np.ndarray":
        backend.truncate(start)
        return backend.step(ids, range(start, start + len(ids)), range(len(ids))).logits

    return check_exact(logits, [*golden.prompt_ids, *golden.greedy_ids[:-1]], manifest.chunk)


def _distance(logits: "np.ndarray", top: Top, step: int) -> Tuple[float, float]:
    """Error of the logits that the bundle keeps of a step, and KL (nats) of the wanted
    distribution from the found one, where all other tokens are one."""
    wanted = np.array(top.logits[step])
    found = logits.astype(np.float64)
    most = found.max()
    log_sum = np.log(np.exp(found - most).sum()) + most
    found = found[list(top.ids[step])]
    error = np.abs(found - wanted).max() / max(1.0, float(np.abs(wanted).max()))
    p, q = _with_rest(np.exp(wanted - top.log_sums[step])), _with_rest(np.exp(found - log_sum))
    return float(error), max(0.0, float((p * np.log(p / q)).sum()))


def _with_rest(shares: "np.ndarray") -> "np.ndarray":
    """Probabilities of some tokens, then that of all others; none is 0."""
    return np.maximum(np.append(shares, 1 - shares.sum()), 1e-12)
