"""How fast this machine reads memory just now: where others compute too, it drifts by half."""

import threading
from time import perf_counter
from typing import List

import numpy as np

BYTES = 256 << 20  # what no cache holds
PASSES = 5


def read_bandwidth(threads: int) -> float:
    """Bytes a second: each thread finds the largest of its part. The median of five passes."""
    parts = [np.full(BYTES // 4 // threads, 0.5, np.float32) for _ in range(threads)]
    return sorted(BYTES / _pass(parts) for _ in range(PASSES))[PASSES // 2]


def _pass(parts: List[np.ndarray]) -> float:
    workers = [threading.Thread(target=part.max) for part in parts]  # numpy lets the GIL go
    started = perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return perf_counter() - started
