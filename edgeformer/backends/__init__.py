"""What runs a bundle: the interface that the generation loop sees, and the choice of one."""

import warnings
from typing import TYPE_CHECKING, Any, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from edgeformer.backends.threads import check_threads
from edgeformer.bundle import Bundle
from edgeformer.contract import STEP
from edgeformer.engines.record import BUILD, engine_sets
from edgeformer.errors import EdgeformerError

if TYPE_CHECKING:
    import numpy as np


class Output(NamedTuple):
    """What one step gives: exactly one of the two, for each of the rows that were asked for."""

    logits: "Optional[np.ndarray]"  # float32 [R, vocab], the caller's own
    tokens: Optional[List[int]]  # the most likely token of each row


class Rows(NamedTuple):
    """Cached rows taken out of a backend, to be put back into one with the same bundle."""

    positions: "np.ndarray"  # int32 [N]
    values: "np.ndarray"  # float32 [2 * n_layers, N, kv_width]


# The token of a cached row, the position at which the step began that computed it, and the tokens
# of that step; 0: it was written.
Held = Tuple[int, int, int]


class Backend:
    """Computes steps of one model and owns its cache. For one thread at a time.

    A cached row holds the keys and values of one token at one position. Rows are counted in the
    order in which they came; what a token sees is decided by positions alone.
    """

    name = ""  # what `open_backend` calls it
    reason = ""  # why this one was chosen
    abilities: FrozenSet[str] = frozenset()  # optional methods that work here
    threads = 0  # CPU threads that compute a step; 0: none do
    precision = "fp32"  # what it computes in, or rounds to
    exact_steps = False  # does a step of several tokens give the bits of steps of one?

    # The stream that fills the cache. A stream that finds another one here has lost its rows.
    owner: Optional[object] = None

    # Of the first rows, those whose position is their index; it may run on behind `cached`.
    _held: List[Held] = []  # noqa: RUF012 (never changed: a backend that tells has its own)

    @property
    def cached(self) -> int:
        """Rows in use."""
        raise NotImplementedError

    @property
    def held(self) -> List[Held]:
        """What the first rows are, up to one whose position is not its index or whose token is
        not known. Right after an error or an interrupt, too."""
        return self._held[: self.cached]

    def step(
        self,
        token_ids: Sequence[int],
        positions: Sequence[int],
        rows: Sequence[int],
        want: str = "logits",
    ) -> Output:
        """Run 1 to `chunk` tokens at their absolute positions and keep their rows.

        Position -1 is padding: computed, never seen, not kept. `rows` (at least one) says which
        of the tokens get an output; `want` is "logits" or "token". A step that raises keeps no row.
        """
        raise NotImplementedError

    def truncate(self, rows: int) -> None:
        """Forget all but the first `rows` rows."""
        raise NotImplementedError

    def drop(self, start: int, stop: int) -> None:
        """Forget rows start to stop - 1. Ability "drop"."""
        raise NotImplementedError

    def read_rows(self, start: int, stop: int) -> Rows:
        """A copy of rows start to stop - 1. Ability "rows"."""
        raise NotImplementedError

    def write_rows(self, rows: Rows, token_ids: Sequence[int] = ()) -> None:
        """Append rows that `read_rows` gave; their tokens too, where known, for `held`.

        Ability "rows"."""
        raise NotImplementedError

    def close(self) -> None:
        """Free the model and the cache; every later call is an error."""
        raise NotImplementedError

    def _hold(
        self, used: int, token_ids: Sequence[int], positions: Sequence[int], computed: bool = True
    ) -> None:
        """Note what comes behind the `used` rows. Before `cached` counts it: an interrupt in
        between leaves a note too long, which is cut, and never a wrong one."""
        held, count = self._held, len(token_ids)
        if len(held) < used or list(positions) != list(range(used, used + count)):
            del held[used:]
        else:
            held[used:] = [(token, used, count if computed else 0) for token in token_ids]

    def __enter__(self) -> "Backend":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


BACKENDS = ("auto", "ort", "trt")


def open_backend(
    bundle: Bundle,
    name: str = "auto",
    threads: Optional[int] = None,
    cuda_graph: Optional[bool] = None,
    engines: Optional[str] = None,
) -> Backend:
    """Load what runs a bundle. "auto" is TensorRT where an engine was built here, else the CPU.

    `threads`: of the CPU; None means one for each fast core that we may use. `cuda_graph`:
    whether TensorRT's steps of one token are recorded and replayed; None: they are, and what is
    not TensorRT runs too. True and False ask for TensorRT. `engines`: the key of a set of them,
    which asks for TensorRT as well; None: the one that was built last.
    """
    if name not in BACKENDS:
        raise EdgeformerError(f"no backend is called {name!r}; choose {', '.join(BACKENDS)}")
    if threads is not None:
        threads = check_threads(threads)
    if cuda_graph not in (None, True, False):
        raise EdgeformerError(f"cuda_graph is {cuda_graph!r}; it must be True, False or None")
    if engines is not None and name != "trt":
        raise EdgeformerError(f"engines {engines[:60]!r} are TensorRT's; open them with trt")
    if name == "trt":
        return _open_trt(bundle, cuda_graph, engines)
    reason = "asked for"
    if name == "auto":
        sets, refused = engine_sets(bundle)
        if sets:
            try:
                return _open_trt(bundle, cuda_graph)
            except EdgeformerError as error:
                refused = [str(error)]
        reason = refused[0] if refused else "the bundle holds no TensorRT engine"
    if cuda_graph is not None:
        raise EdgeformerError(
            f"cuda_graph is {cuda_graph}, which is about TensorRT, but this would run on "
            f"onnxruntime ({reason}); leave out cuda_graph (--no-cuda-graph)"
        )
    backend = open_ort(bundle, threads)
    backend.reason = "ort: " + reason
    if backend.precision == "fp16":
        backend.reason += "; onnxruntime computes the fp16 graphs in FP32"
    return backend


def _open_trt(bundle: Bundle, cuda_graph: Optional[bool], engines: Optional[str] = None) -> Backend:
    sets, refused = engine_sets(bundle)
    if engines is not None:
        sets = [found for found in sets if found.key == engines]
        refused = [f"{bundle.path} holds no engines {engines[:60]!r}"]
    if not sets:
        why = "; ".join(refused) or f"{bundle.path} holds no TensorRT engine"
        raise EdgeformerError(f"{why}; build one on this device with: {BUILD}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pycuda's, of an error that it then raises
            import edgeformer.backends.cuda  # noqa: F401
        from edgeformer.backends.trt import TrtBackend
        from edgeformer.backends.trt_loaded import choose_set
    except ImportError as error:
        raise EdgeformerError(why_no_trt(error)) from error
    chosen = choose_set(bundle, sets)
    backend = TrtBackend(bundle, chosen, cuda_graph is not False)
    graph = "off" if cuda_graph is False else "on"
    backend.reason = (
        f"trt: engines {chosen.key}, {chosen.precision}, {chosen.layout}, "
        f"TensorRT {chosen.tensorrt}, CUDA graph: {graph}"
    )
    return backend


def why_no_trt(error: ImportError) -> str:
    """Which of TensorRT, pycuda and the driver is missing here, and how to get it."""
    if "libcuda" in str(error):
        return (
            f"there is no CUDA driver ({error}); on a Jetson it comes with JetPack, "
            "elsewhere use --backend ort"
        )
    missing = (error.name or "tensorrt").split(".")[0]
    if missing == "edgeformer":
        raise error
    if missing == "_driver":
        return (
            f"pycuda was built for another CUDA than this one ({error}); build it again: "
            "python -m pip install --force-reinstall --no-cache-dir pycuda"
        )
    if missing == "pycuda":
        return f"pycuda cannot be imported ({error}); install it: python -m pip install pycuda"
    return (
        f"{missing} cannot be imported ({error}); on a Jetson it comes with JetPack: "
        "sudo apt install python3-libnvinfer, and let a venv see it (--system-site-packages)"
    )


def open_ort(bundle: Bundle, threads: Optional[int], profile: Optional[str] = None) -> Any:
    """The backend of a bundle's dialect. profile: how the path begins of a file that takes the time
    of every node, until `end_profile` tells its name."""
    ort = ort_module()
    if STEP in bundle.manifest.graphs:
        from edgeformer.backends.ort_fused import FusedBackend

        return FusedBackend(bundle, threads, profile)
    return ort.OrtBackend(bundle, threads, profile)


def ort_module() -> Any:
    """`edgeformer.backends.ort`, or an error that says what is missing."""
    try:
        from edgeformer.backends import ort
    except ImportError as error:
        missing = (error.name or "onnxruntime").split(".")[0]
        if missing == "edgeformer":
            raise
        raise EdgeformerError(
            f"{missing} cannot be imported ({error}); "
            f"install it with: python -m pip install {missing}"
        ) from error
    return ort
