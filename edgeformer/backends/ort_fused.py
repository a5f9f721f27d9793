"""ONNX Runtime's own operators on the CPU: one graph, and a cache that it writes in place."""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from edgeformer.backends import Backend, Held, Output, Rows
from edgeformer.backends.ort import ORT_ERRORS, address, open_graph
from edgeformer.backends.rows import check_range, check_room, check_shape, zeros
from edgeformer.backends.steps import NOT_FINITE, WANTED, StepLimits
from edgeformer.backends.threads import default_threads
from edgeformer.bundle import Bundle
from edgeformer.contract import STEP, cache_names, fused_head
from edgeformer.errors import EdgeformerError

INFINITE = float("inf")


class FusedBackend(Backend):
    """Runs `step.onnx`: prompts, single tokens and several at once, over one set of weights.

    Cache and sizes are bound once; a step writes its tokens and two numbers and runs. Only another
    count of tokens or outputs binds four arrays anew. A row's place in the cache is its position,
    so a step's positions are those that follow, and there are no free rows.
    """

    name = "ort"
    abilities = frozenset(("rows",))

    def __init__(
        self, bundle: Bundle, threads: Optional[int] = None, profile: Optional[str] = None
    ) -> None:
        manifest = bundle.manifest
        self.threads = default_threads() if threads is None else threads
        self.precision = manifest.precision
        self._session = open_graph(bundle, STEP, self.threads, profile)
        self._binding = self._session.io_binding()
        self._bound = (0, 0)  # tokens, rows with outputs
        sizes = manifest.model
        names = cache_names(sizes["n_layers"])
        self._head = sizes["head_dim"]
        self.exact_steps = manifest.exact_steps
        # Steps of such a graph write a row more than they have tokens.
        room = manifest.capacity + int(manifest.exact_steps)
        shape = (len(names), sizes["n_kv_heads"], room, fused_head(self._head))
        self._capacity, self._used = manifest.capacity, 0
        self._held: List[Held] = []
        self._cache = zeros(shape)
        self._limits = StepLimits.of(manifest)
        chunk = self._limits.chunk
        self._ids = np.zeros((1, chunk), np.int32)
        self._positions = np.zeros(chunk, np.int32)
        self._rows = np.zeros(chunk, np.int32)
        self._last, self._total = np.zeros(1, np.int32), np.zeros(1, np.int32)
        self._tokens = np.zeros(chunk, np.int64)
        self._logits = np.zeros((1, sizes["vocab_size"]), np.float32)  # grows to the most rows
        self._most = min(self._capacity, self._limits.max_positions)
        self._vocabulary = self._limits.vocabulary
        # A step reads all weights, and then the CPU's caches hold nothing of ours: the less memory
        # is touched the quicker, and a number that goes through numpy touches much.
        self._views = tuple(
            memoryview(array)
            for array in (self._ids[0], self._positions, self._rows, self._last, self._total)
        )
        self._token_view, self._logit_view = memoryview(self._tokens), memoryview(self._logits[0])
        listed = {spec.name for spec in manifest.graphs[STEP].inputs}
        self._counted = "positions" in listed
        self._bind("last", self._last, (1,))
        self._bind("total", self._total, (1,))
        for name, rows in zip(names, self._cache):
            self._bind("past." + name, rows, (1,) + rows.shape)
            self._bind("present." + name, rows, (1,) + rows.shape)

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
        count, outputs, used = len(token_ids), len(rows), self._used
        if (
            count == outputs == len(positions) == 1
            and isinstance(token_ids[0], int)
            and 0 <= token_ids[0] < self._vocabulary
            and positions[0] == used < self._most
            and rows[0] == 0
            and want in WANTED
            and self._session is not None
        ):  # the next token, and all that `_check_step` asks
            ids, places, first, last, total = self._views
            ids[0], places[0], first[0], last[0], total[0] = token_ids[0], used, 0, used, used + 1
            end = used + 1
        else:
            end = self._check_step(token_ids, positions, rows, want)
            self._ids[0, :count] = token_ids
            self._positions[:count] = positions
            self._rows[:outputs] = rows
            self._last[0], self._total[0] = end - 1, end
        if self._bound != (count, outputs):
            self._bind_sizes(count, outputs)
        try:
            self._session.run_with_iobinding(self._binding)
        except ORT_ERRORS as error:
            raise EdgeformerError(f"onnxruntime failed in a step: {error}") from None
        held = self._held
        if len(held) >= used:  # as `_hold`, whose call would cost more than its work
            if count == 1:
                held[used:] = [(token_ids[0], used, 1)]
            else:
                held[used:] = [(token, used, count) for token in token_ids]
        if outputs == 1 and want == "token":
            token = self._token_view[0]
            if -INFINITE < self._logit_view[token] < INFINITE:
                self._used = end
                return Output(None, [token])
        output = self._output(outputs, want)
        self._used = end
        return output

    def truncate(self, rows: int) -> None:
        self._check_range(0, rows)
        self._used = rows

    def read_rows(self, start: int, stop: int) -> Rows:
        self._check_range(start, stop)
        values = self._cache[:, :, start:stop, : self._head]
        values = values.transpose(0, 2, 1, 3)  # [2L, N, kv_heads, head_dim]
        values = values.reshape(len(values), stop - start, -1)
        return Rows(np.arange(start, stop, dtype=np.int32), np.array(values))

    def write_rows(self, rows: Rows, token_ids: Sequence[int] = ()) -> None:
        self._check_open()
        (layers, kv_heads, _, _), width = self._cache.shape, self._head
        start, stop = self._used, self._used + len(rows.positions)
        check_shape(rows.values.shape, (layers, stop - start, kv_heads * width))
        self._check_positions(list(rows.positions))
        values = rows.values.reshape(layers, -1, kv_heads, width).transpose(0, 2, 1, 3)
        self._hold(start, token_ids, rows.positions.tolist(), computed=False)
        self._cache[:, :, start:stop, :width] = values
        self._used = stop

    def end_profile(self) -> str:
        return str(self._session.end_profiling())

    def close(self) -> None:
        self._session = self._binding = None
        self._cache = np.zeros((0, 0, 0, 0), np.float32)
        self._used = 0

    def _output(self, count: int, want: str) -> Output:
        if want == "logits":
            return Output(self._logits[:count].copy(), None)
        tokens = [self._token_view[row] for row in range(count)]
        for row, token in enumerate(tokens):
            logit = self._logit_view[row * self._vocabulary + token]
            if not -INFINITE < logit < INFINITE:
                raise EdgeformerError(f"the model gave a logit of {logit}: {NOT_FINITE}")
        return Output(None, tokens)

    def _check_step(
        self, token_ids: Sequence[int], positions: Sequence[int], rows: Sequence[int], want: str
    ) -> int:
        """Rows in use once the step is done; garbage is refused."""
        self._check_open()
        self._limits.check(token_ids, positions, rows, want)
        self._check_positions(positions)
        return self._used + len(token_ids)

    def _check_positions(self, positions: Sequence[int]) -> None:
        end = self._used + len(positions)
        check_room(self._used, len(positions), self._capacity)
        if list(positions) != list(range(self._used, end)):
            raise EdgeformerError(
                f"the next positions are {self._used} to {end - 1}, not {list(positions)[:8]}: in "
                "this bundle rows stand in their order (dialect ort); truncate first, or export "
                "for another target"
            )

    def _check_range(self, start: int, stop: int) -> None:
        self._check_open()
        check_range(start, stop, self._used)

    def _check_open(self) -> None:
        if self._session is None:
            raise EdgeformerError("the model is closed; load the bundle again")

    def _bind_sizes(self, count: int, outputs: int) -> None:
        if outputs > len(self._logits):
            self._logits = np.zeros((outputs, self._logits.shape[1]), np.float32)
            self._logit_view = memoryview(self._logits.reshape(-1))
        self._bound = (0, 0)  # in case of an interrupt half-way
        self._bind("token_ids", self._ids, (1, count))
        if self._counted:
            self._bind("positions", self._positions, (count,))
        self._bind("rows", self._rows, (outputs,))
        self._bind("logits", self._logits, (outputs, self._logits.shape[1]))
        self._bind("tokens", self._tokens, (outputs,))
        self._bound = (count, outputs)

    def _bind(self, name: str, array: np.ndarray, shape: Tuple[int, ...]) -> None:
        outputs = name in ("logits", "tokens") or name.startswith("present.")
        bind = self._binding.bind_output if outputs else self._binding.bind_input
        bind(name, "cpu", 0, array.dtype.type, shape, address(array))
