"""The cache of a backend whose rows live in this process's memory."""

import mmap
from typing import Any, Tuple

import numpy as np

from edgeformer.backends import Rows
from edgeformer.errors import EdgeformerError

BUCKET = 64  # rows; a graph sees the cache in whole buckets, so its shapes change rarely


def zeros(shape: Tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Memory of a cache. Not garbage: a masked row still computes, and 0 x NaN is NaN.

    Pages are taken as rows come into use. numpy asks for huge ones, in which the first rows of
    each head and layer would take the whole cache.
    """
    size = np.dtype(dtype).itemsize
    for number in shape:
        size *= number
    if size == 0:
        return np.zeros(shape, dtype)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # Python 3.8; where the kernel gives them to all
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        return np.frombuffer(memory, dtype).reshape(shape)
    except (OSError, OverflowError, ValueError) as error:
        raise EdgeformerError(
            f"no memory for a cache of {' x '.join(map(str, shape))} numbers: {error}; "
            "export with a smaller capacity"
        ) from None


def check_room(used: int, count: int, capacity: int) -> None:
    if used + count > capacity:
        raise EdgeformerError(
            f"the cache holds {used} rows of {capacity}, {count} more do not fit; "
            "export with a larger capacity"
        )


def check_range(start: int, stop: int, used: int) -> None:
    if not 0 <= start <= stop <= used:
        raise EdgeformerError(f"rows {start} to {stop} are not in the {used} in use")


def check_shape(found: Tuple[int, ...], wanted: Tuple[int, ...]) -> None:
    if found != wanted:
        raise EdgeformerError(
            f"rows of shape {found} do not fit the cache, which takes {wanted}; "
            "read them from the same bundle"
        )


class RowCache:
    """Keys and values of every layer, each row at the position that it holds.

    values     [2 * n_layers, rows, width]           any prefix of rows is contiguous in a layer
    positions  int32 [rows]                          -1: an empty row, which nobody sees
    """

    def __init__(self, layers: int, capacity: int, width: int, dtype: Any = np.float32) -> None:
        self.capacity = capacity
        self.used = 0
        self.bucket = min(BUCKET, capacity)
        rows = -(-capacity // self.bucket) * self.bucket
        self.values = zeros((layers, rows, width), dtype)
        self.positions = np.full(rows, -1, np.int32)

    def past(self) -> int:
        """Rows that a graph must see: whole buckets, and one where the cache is empty."""
        return max(1, -(-self.used // self.bucket)) * self.bucket

    def append(self, values: np.ndarray, positions: np.ndarray, kept: int) -> None:
        """Add new rows, all layers in one strided copy. `kept` of them have a position, not -1."""
        end = self.used + kept
        if kept < len(positions):
            real = np.flatnonzero(positions >= 0)
            values, positions = values[:, real], positions[real]
        self.values[:, self.used : end] = values
        self.positions[self.used : end] = positions
        self.used = end

    def truncate(self, rows: int) -> None:
        self.check_range(0, rows)
        # Not only the rows in use: an interrupt may have left more behind.
        self.positions[rows:] = -1
        self.used = rows

    def drop(self, start: int, stop: int) -> None:
        self.check_range(start, stop)
        left = self.used - (stop - start)
        self.values[:, start:left] = self.values[:, stop : self.used]
        self.positions[start:left] = self.positions[stop : self.used]
        self.truncate(left)

    def read(self, start: int, stop: int) -> Rows:
        self.check_range(start, stop)
        values = self.values[:, start:stop].astype(np.float32)  # a copy, whatever its type
        return Rows(self.positions[start:stop].copy(), values)

    def write(self, rows: Rows) -> None:
        layers, _, width = self.values.shape
        check_shape(rows.values.shape, (layers, len(rows.positions), width))
        self.check_room(len(rows.positions))
        self.append(rows.values, rows.positions, len(rows.positions))

    def check_room(self, count: int) -> None:
        check_room(self.used, count, self.capacity)

    def check_range(self, start: int, stop: int) -> None:
        check_range(start, stop, self.used)
