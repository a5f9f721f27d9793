"""The graph of dialect `ort` in ONNX Runtime: its cache in place, and its golden run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort

from edgeformer.export.measure import LIMITS, check_same, measured, top
from edgeformer.export.parity import Golden, Reference, open_graph
from edgeformer.export.quality import Logits
from edgeformer.generation import golden


class FusedRun:
    """One text after another through a graph; each begins with `used` set to 0."""

    def __init__(self, graph: ort.InferenceSession) -> None:
        self.graph, self.used = graph, 0
        self.cache = {}
        for value in graph.get_inputs():
            if value.name.startswith("past."):
                rows = ort.OrtValue.ortvalue_from_numpy(np.zeros(value.shape, np.float32))
                self.cache[value.name.removeprefix("past.")] = rows
        self.counted = "positions" in {value.name for value in graph.get_inputs()}

    def __call__(self, token_ids: Sequence[int], rows: Sequence[int]) -> np.ndarray:
        """Logits [R, vocab] of these of the tokens, which come behind those of the calls before."""
        end = self.used + len(token_ids)
        binding = self.graph.io_binding()
        inputs = {"token_ids": [token_ids], "rows": rows, "last": [end - 1], "total": [end]}
        if self.counted:
            inputs["positions"] = range(self.used, end)
        for name, values in inputs.items():
            binding.bind_cpu_input(name, np.array(values, np.int32))
        binding.bind_output("logits")
        for name, value in self.cache.items():
            binding.bind_ortvalue_input("past." + name, value)
            binding.bind_ortvalue_output("present." + name, value)
        self.graph.run_with_iobinding(binding)
        self.used = end
        return binding.copy_outputs_to_cpu()[0]


def fused_logits(path: Path) -> Logits:
    """Of every token of a window that the cache holds."""
    run = FusedRun(open_graph(path, packed=True))

    def logits(ids: Sequence[int]) -> np.ndarray:
        run.used = 0
        return run(ids, range(len(ids)))

    return logits


def check_exact(path: Path, ref: Reference, chunk: int) -> str:
    """That steps of several tokens give the bits of steps of one, in the form in which a device
    computes them; CheckFailed if not."""
    run = FusedRun(open_graph(path, packed=True))

    def logits(ids: Sequence[int], start: int) -> np.ndarray:
        run.used = start
        return run(ids, range(len(ids)))

    return golden.check_exact(logits, [*ref.prompt_ids, *ref.greedy_ids[:-1]], chunk)


def check_fused(
    path: Path,
    ref: Reference,
    chunk: int,
    stage: Callable[[str], None] = lambda text: None,
    precision: str = "fp32",
) -> Golden:
    """The prompt in chunks and then token by token; then all of it in chunks, as what verifies
    several tokens in one step reads it. Both must be near to PyTorch, and to each other."""
    stage(f"run {path.name}")
    prompt, text = list(ref.prompt_ids), [*ref.prompt_ids, *ref.greedy_ids[:-1]]
    run = FusedRun(open_graph(path, packed=precision not in LIMITS))
    for start in range(0, len(prompt), chunk):
        part = prompt[start : start + chunk]
        first = run(part, [len(part) - 1])
    alone = [first[0], *(run([token], [0])[0] for token in ref.greedy_ids[:-1])]
    run.used = 0
    parts = [text[start : start + chunk] for start in range(0, len(text), chunk)]
    together = np.concatenate([run(part, range(len(part))) for part in parts])
    together = list(together[len(prompt) - 1 :])
    worst = ref.cached.worse(measured(path.name, alone, ref.logits, precision))
    if precision not in LIMITS:
        check_same(f"{path.name} in chunks differs from single tokens", together, alone, worst)
    found = measured(f"{path.name} in chunks", together, ref.logits, precision)
    worst = worst.worse(found)
    error, divergence = (float(f"{x:.3g}") for x in (worst.logit_error, worst.kl))
    return Golden(ref.prompt_ids, ref.greedy_ids, error, divergence, worst.top1, top(ref.logits))
