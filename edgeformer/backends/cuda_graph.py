"""A CUDA graph: work recorded once and launched again. pycuda has no call for it."""

import ctypes
from typing import Any, Callable

from edgeformer.errors import EdgeformerError

SWITCH_OFF = "load the model with cuda_graph=False (--no-cuda-graph)"
THREAD_LOCAL = 1  # capture mode: what other threads do meanwhile is not looked at


class CudaGraph:
    """What `work` put on a stream, to be launched on it as one call.

    All sizes and addresses in it are fixed; only what lies at the addresses may change.
    """

    def __init__(self, stream: int, work: Callable[[], None]) -> None:
        """Recorded, not run. Work that cannot be recorded is an error."""
        self._library = driver = ctypes.CDLL("libcuda.so.1")
        self._stream = ctypes.c_void_p(stream)
        self._graph = ctypes.c_void_p()
        self._ready = ctypes.c_void_p()
        self._call("cuStreamBeginCapture_v2", self._stream, THREAD_LOCAL)
        try:
            try:
                work()
            finally:
                # A stream left in capture would record everything that comes after.
                status = driver.cuStreamEndCapture(self._stream, ctypes.byref(self._graph))
        except EdgeformerError as error:
            # What ran before and cannot be recorded: only the one who works can tell why.
            self.release()
            raise EdgeformerError(
                f"CUDA cannot record the decode step: {error}; {SWITCH_OFF}"
            ) from None
        self._check("cuStreamEndCapture", status)
        try:
            self._instantiate()
        except EdgeformerError:
            self.release()
            raise
        self._launch = driver.cuGraphLaunch

    def launch(self) -> None:
        status = self._launch(self._ready, self._stream)
        if status:
            self._check("cuGraphLaunch", status)

    def release(self) -> None:
        if self._ready:
            self._library.cuGraphExecDestroy(self._ready)
        if self._graph:
            self._library.cuGraphDestroy(self._graph)
        self._ready = self._graph = ctypes.c_void_p()

    def _instantiate(self) -> None:
        if hasattr(self._library, "cuGraphInstantiateWithFlags"):  # CUDA 11.4
            flags = ctypes.c_ulonglong(0)
            arguments: Any = (flags,)
            name = "cuGraphInstantiateWithFlags"
        else:
            arguments = (None, None, ctypes.c_size_t(0))  # no node, no log
            name = "cuGraphInstantiate"
        self._call(name, ctypes.byref(self._ready), self._graph, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._library, name)(*arguments))

    @staticmethod
    def _check(name: str, status: int) -> None:
        if status:
            raise EdgeformerError(
                f"CUDA cannot record or replay the decode step: {name} gave error {status}; "
                + SWITCH_OFF
            )
