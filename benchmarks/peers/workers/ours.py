"""edgeformer through ONNX Runtime, in the project's own environment."""

from typing import Any, Dict, List

import numpy as np

import edgeformer
from benchmarks.peers.workers.loop import Engine, serve

ROWS = 32  # of logits in one step


class Ours(Engine):
    packages = ("onnxruntime", "numpy")

    def __init__(self, request: Dict[str, Any]) -> None:
        self.model = edgeformer.load(request["model"], "ort", request["threads"])
        self.backend, self.chunk = self.model.backend, self.model.bundle.manifest.chunk

    def reset(self) -> None:
        self.backend.truncate(0)

    def first(self, ids: List[int]) -> int:
        for start in range(0, len(ids), self.chunk):
            part = ids[start : start + self.chunk]
            positions = range(start, start + len(part))
            out = self.backend.step(part, positions, [len(part) - 1], "token")
        return out.tokens[0]

    def next(self, token: int) -> int:
        return self.backend.step([token], [self.backend.cached], [0], "token").tokens[0]

    def logits(self, ids: List[int]) -> np.ndarray:
        self.reset()
        size = min(ROWS, self.chunk)
        found = []
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            positions = range(start, start + len(part))
            found.append(self.backend.step(part, positions, range(len(part)), "logits").logits)
        return np.concatenate(found)


if __name__ == "__main__":
    serve(Ours)
