"""One way through an engine: a context at one shape, and the graph that replays it."""

from typing import Dict, Optional, Tuple

from edgeformer.backends.cuda_graph import CudaGraph
from edgeformer.backends.trt_api import Context
from edgeformer.engines.record import EngineFile, Span

Shape = Tuple[int, int, int]  # tokens, rows with outputs, past rows


class Lane:
    """Runs steps of at most `tokens.most` tokens. Shapes are set only when they change.

    A step of one token that comes again at the same shape is recorded as a CUDA graph, and from
    then on launched. A graph does not outlive its shape: TensorRT may move what it points to.
    """

    def __init__(
        self, context: Context, profile: EngineFile, free: Dict[str, Tuple[int, ...]], graphs: bool
    ) -> None:
        """`free`: the inputs whose first size is not fixed in the engine, and their other sizes."""
        self.tokens: Span = profile.tokens
        self.rows: Span = profile.rows
        self._context = context
        past = ("past_positions", "past.")
        self._tokens = {n: rest for n, rest in free.items() if not n.startswith(("rows", *past))}
        self._past = {n: rest for n, rest in free.items() if n.startswith(past)}
        self._free_rows = "rows" in free
        self._graphs = graphs
        self._shape: Shape = (0, 0, 0)
        self._graph: Optional[CudaGraph] = None
        self._steady = False  # this shape has run before

    def bind(self, tokens: int, rows: int, past: int) -> None:
        """Set the shapes of the next steps."""
        if self._shape == (tokens, rows, past):
            return
        before, self._shape = self._shape, (0, 0, 0)  # in case of an interrupt half-way
        self.forget()
        context = self._context
        for name, rest in self._tokens.items():
            context.set_shape(name, (tokens,) + rest)
        if self._free_rows:
            context.set_shape("rows", (rows,))
        if before[2] != past:
            for name, rest in self._past.items():
                context.set_shape(name, (past,) + rest)
        self._shape = (tokens, rows, past)

    def run(self, stream: int) -> None:
        """Put one step on the stream."""
        if self._graph is not None:
            self._graph.launch()
        elif self._graphs and self._steady and self._shape[0] == 1:
            # The first run at a shape does TensorRT's own preparations, which no graph may hold.
            self._graph = CudaGraph(stream, lambda: self._context.run(stream))
            self._graph.launch()
        else:
            self._context.run(stream)
            self._steady = True

    def forget(self) -> None:
        """Give the graph back, when nothing runs any more."""
        self._steady = False
        graph, self._graph = self._graph, None
        if graph is not None:
            graph.release()

    def release(self) -> None:
        """Free the context, when nothing runs any more."""
        self.forget()
        self._context = None
