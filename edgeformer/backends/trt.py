"""TensorRT on the GPU: the cache stays there, and a step waits for the GPU once."""

import weakref
from typing import Dict, List, Sequence, Tuple

import numpy as np

from edgeformer.backends import Backend, Held, Output, Rows
from edgeformer.backends.cuda import Queue
from edgeformer.backends.embedding import open_table
from edgeformer.backends.steps import StepLimits, most_likely
from edgeformer.backends.trt_loaded import Loaded
from edgeformer.bundle import Bundle
from edgeformer.contract import cache_names
from edgeformer.engines.record import EngineSet
from edgeformer.errors import EdgeformerError


class TrtBackend(Backend):
    """Runs a bundle's engines. Rows and positions of the cache live in GPU memory.

    A step sends its tokens, runs the engine, appends the new rows in one strided copy, fetches
    the logits that were asked for, and waits. Nothing else crosses to the host.
    """

    name = "trt"
    abilities = frozenset(("drop", "rows"))

    def __init__(self, bundle: Bundle, engines: EngineSet, cuda_graph: bool = True) -> None:
        manifest = bundle.manifest
        sizes = manifest.model
        self._limits = StepLimits.of(manifest)
        self._capacity = manifest.capacity
        self._past_rows = engines.past_rows
        self._dtype = np.dtype(engines.cache_dtype)
        self._width = sizes["n_kv_heads"] * sizes["head_dim"]
        self._row = self._width * self._dtype.itemsize  # bytes of one row of one cached tensor
        self._used = 0
        self._held: List[Held] = []
        self._unsettled = False  # a step began and did not end: what it left must go
        self.precision = engines.precision
        self._table = open_table(bundle)  # None: the engines take token ids
        self._loaded = loaded = Loaded(bundle, engines, cuda_graph)
        # At the end of the program too: later, neither CUDA nor TensorRT can free anything.
        self._release = weakref.finalize(self, loaded.release)
        try:
            self._allocate(cache_names(sizes["n_layers"]), engines)
        except BaseException:
            self._release()
            raise

    @property
    def cached(self) -> int:
        return self._used

    def step(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        rows: Sequence[int],
        want: str = "logits",
    ) -> Output:
        self._check_open()
        kept = self._limits.check(token_ids, positions, rows, want)
        self._check_room(kept)
        with self._queue as queue:
            self._settle()
            self._unsettled = True
            self._compute(token_ids, positions, rows)
            at = self._used
            for start, stop in _runs(positions, kept):
                self._append(at, start, stop)
                at += stop - start
            queue.synchronize()
            logits = self._logits[: len(rows)]
            if want == "token":
                output = Output(None, most_likely(logits))
            else:
                output = Output(logits.copy(), None)
            self._hold(self._used, token_ids, positions)
            self._used = at
            self._unsettled = False
        return output

    def truncate(self, rows: int) -> None:
        self._check_open()
        self._check_range(0, rows)
        del self._held[rows:]
        with self._queue:
            self._settle()
            self._truncate(rows)

    def drop(self, start: int, stop: int) -> None:
        self._check_open()
        self._check_range(start, stop)
        del self._held[start:]
        with self._queue as queue:
            self._settle()
            target = start
            # Through `new`, a chunk at a time: a copy onto itself has no defined order.
            for source in range(stop, self._used, self._limits.chunk):
                count = min(self._limits.chunk, self._used - source)
                size = count * self._row
                queue.copy_planes(self._new, 0, self._cache, source * self._row, size)
                queue.copy_planes(self._cache, target * self._row, self._new, 0, size)
                queue.copy(self._sent, self._positions + 4 * source, 4 * count)
                queue.copy(self._positions + 4 * target, self._sent, 4 * count)
                target += count
            self._truncate(self._used - (stop - start))

    def read_rows(self, start: int, stop: int) -> Rows:
        self._check_open()
        self._check_range(start, stop)
        positions = np.empty(stop - start, np.int32)
        values = np.empty((self._cache.count, stop - start, self._width), self._dtype)
        if stop > start:
            with self._queue as queue:
                self._settle()
                queue.fetch(positions, self._positions + 4 * start)
                for plane, address in zip(values, self._cache.addresses()):
                    queue.fetch(plane, address + start * self._row)
                queue.synchronize()
        return Rows(positions, values.astype(np.float32))

    def write_rows(self, rows: Rows, token_ids: Sequence[int] = ()) -> None:
        self._check_open()
        count = len(rows.positions)
        wanted = (self._cache.count, count, self._width)
        if rows.values.shape != wanted:
            raise EdgeformerError(
                f"rows of shape {rows.values.shape} do not fit the cache, which takes {wanted}; "
                "read them from the same bundle"
            )
        self._check_room(count)
        if count == 0:
            return
        values = np.ascontiguousarray(rows.values, self._dtype)
        with self._queue as queue:
            self._settle()
            self._unsettled = True
            for plane, address in zip(values, self._cache.addresses()):
                queue.send(address + self._used * self._row, plane)
            positions = np.ascontiguousarray(rows.positions, np.int32)
            queue.send(self._positions + 4 * self._used, positions)
            queue.synchronize()
            self._hold(self._used, token_ids, rows.positions.tolist(), computed=False)
            self._used += count
            self._unsettled = False

    def close(self) -> None:
        self._release()
        self._used = 0
        self._table = None

    def _allocate(self, names: List[str], engines: EngineSet) -> None:
        """All memory that this backend will ever use, and its addresses given to the engines."""
        rows, loaded = engines.past_rows[-1], self._loaded
        tokens = max(engine.tokens.most for engine in engines.engines.values())
        outputs = max(engine.rows.most for engine in engines.engines.values())
        self._queue: Queue = loaded.queue
        with self._queue as queue:
            self._cache = queue.planes(len(names), rows * self._row, "the cache")
            self._new = queue.planes(len(names), tokens * self._row, "new rows")
            self._positions = queue.allocate(4 * rows, "positions")
            logits = queue.allocate(4 * outputs * self._limits.vocabulary, "logits")
            # What a step sends lies together, so that it is one copy: token ids, positions, rows.
            slot = -(-4 * tokens // 256) * 64  # numbers from one to the next, 256 bytes apart
            self._sent = queue.allocate(3 * 4 * slot, "tokens")
            self._sent_positions = self._sent + 4 * slot
            # Zeros, not garbage: a masked row still computes, and 0 x NaN is NaN.
            queue.zero(self._cache.address, self._cache.count * self._cache.stride)
            queue.fill_int32(self._positions, -1, rows)
            addresses: Dict[str, int] = {
                "token_ids": self._sent,
                "embeddings": self._embeddings_address(tokens),
                "positions": self._sent_positions,
                "rows": self._sent + 8 * slot,
                "past_positions": self._positions,
                "logits": logits,
            }
            for name, past, new in zip(names, self._cache.addresses(), self._new.addresses()):
                addresses["past." + name] = past
                addresses["new." + name] = new
            loaded.make_lanes(addresses)
            queue.synchronize()
        self._logits_address = logits
        self._logits = np.zeros((outputs, self._limits.vocabulary), np.float32)
        self._staging = np.zeros((3, slot), np.int32)

    def _embeddings_address(self, tokens: int) -> int:
        """Where the rows of a step's tokens go, if they are looked up here; else 0."""
        if self._table is None:
            return 0
        self._embeddings = np.zeros((tokens, self._table.shape[1]), self._table.dtype)
        self._embedded = self._queue.allocate(self._embeddings.nbytes, "embeddings")
        return self._embedded

    def _compute(
        self, token_ids: Sequence[int], positions: Sequence[int], rows: Sequence[int]
    ) -> None:
        """Run the engine over the tokens, once for each batch of rows that it can answer."""
        count, queue = len(token_ids), self._queue
        lane = self._loaded.one if count == 1 else self._loaded.many
        tokens = max(count, lane.tokens.least)
        staging = self._staging
        staging[0, :count] = token_ids
        staging[1, :count] = positions
        if self._table is not None:
            self._embeddings[:count] = self._table[staging[0, :count]]
            queue.send(self._embedded, self._embeddings[:tokens])
        if tokens > count:
            staging[0, count:tokens] = 0
            staging[1, count:tokens] = -1
        if len(rows) > len(self._logits):
            self._logits = np.zeros((len(rows), self._limits.vocabulary), np.float32)
        past = next(size for size in self._past_rows if size >= self._used)
        for start in range(0, len(rows), lane.rows.most):
            if start:
                queue.synchronize()  # what was sent may change only now
            part = rows[start : start + lane.rows.most]
            outputs = max(len(part), lane.rows.least)
            staging[2, : len(part)] = part
            staging[2, len(part) : outputs] = 0
            queue.send(self._sent, staging)
            lane.bind(tokens, outputs, past)
            lane.run(queue.handle)
            queue.fetch(self._logits[start : start + len(part)], self._logits_address)

    def _append(self, at: int, start: int, stop: int) -> None:
        """Keep new rows start to stop - 1 as cached rows from `at` on, all layers in one copy."""
        queue, row = self._queue, self._row
        queue.copy_planes(self._cache, at * row, self._new, start * row, (stop - start) * row)
        queue.copy(self._positions + 4 * at, self._sent_positions + 4 * start, 4 * (stop - start))

    def _truncate(self, rows: int) -> None:
        self._queue.fill_int32(self._positions + 4 * rows, -1, self._past_rows[-1] - rows)
        self._used = rows

    def _settle(self) -> None:
        """Remove what a failed or interrupted step may have left beyond the rows in use."""
        if not self._unsettled:
            return
        queue, left = self._queue, self._past_rows[-1] - self._used
        queue.synchronize()
        queue.fill_int32(self._positions + 4 * self._used, -1, left)
        for address in self._cache.addresses():
            queue.zero(address + self._used * self._row, left * self._row)
        self._unsettled = False

    def _check_open(self) -> None:
        if not self._release.alive:
            raise EdgeformerError("the model is closed; load the bundle again")

    def _check_room(self, count: int) -> None:
        if self._used + count > self._capacity:
            raise EdgeformerError(
                f"the cache holds {self._used} rows of {self._capacity}, {count} more do not fit; "
                "export with a larger capacity"
            )

    def _check_range(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self._used:
            raise EdgeformerError(f"rows {start} to {stop} are not in the {self._used} in use")


def _runs(positions: Sequence[int], kept: int) -> List[Tuple[int, int]]:
    """Stretches of tokens that have a position; nearly always one."""
    if kept == len(positions):
        return [(0, kept)]
    runs: List[Tuple[int, int]] = []
    for index, position in enumerate(positions):
        if position < 0:
            continue
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs
