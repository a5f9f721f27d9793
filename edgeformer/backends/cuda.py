"""CUDA through pycuda: one context, one stream, the memory on it, and the copies between.

Every call of a `Queue` must stand inside `with queue:`, which makes the GPU current in this
thread; a queue that was made in one thread works in another. Errors of CUDA leave it as ours.
"""

import contextlib
import threading
import weakref
from typing import Any, List, NamedTuple, Optional

import numpy as np
from pycuda import driver

from edgeformer.errors import EdgeformerError

CudaError = driver.Error
ALIGNMENT = 256  # TensorRT asks it of every address


class Planes(NamedTuple):
    """Equal blocks of device memory, one for each cached tensor: `stride` bytes apart."""

    address: int
    stride: int
    count: int

    def addresses(self) -> List[int]:
        return [self.address + index * self.stride for index in range(self.count)]


class Gpu:
    """The first GPU and its primary context, which other libraries in this process use too."""

    _lock = threading.Lock()
    _only: "Optional[Gpu]" = None

    def __init__(self) -> None:
        if not hasattr(driver.Device, "retain_primary_context"):
            raise EdgeformerError(
                "this pycuda is too old: it has no Device.retain_primary_context; on Python 3.6 "
                "install another: python -m pip install pycuda==2021.1, elsewhere the newest"
            )
        try:
            driver.init()
            self._device = driver.Device(0)
            self._context = self._device.retain_primary_context()
        except CudaError as error:
            raise EdgeformerError(
                f"there is no CUDA GPU to use ({error}); on a Jetson check JetPack's driver, "
                "elsewhere use --backend ort"
            ) from None
        # Kept to the end, and given back there by name: pycuda's destructor makes a wrong call.
        # Finalizers run in reverse order, so every queue is gone by then.
        weakref.finalize(self, self._context.detach)

    @classmethod
    def first(cls) -> "Gpu":
        with cls._lock:
            if cls._only is None:
                cls._only = cls()
            return cls._only

    @property
    def name(self) -> str:
        return self._device.name()

    @property
    def compute_capability(self) -> str:
        return "%d.%d" % self._device.compute_capability()

    def __enter__(self) -> "Gpu":
        self._context.push()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _leave(error)


def _leave(error: object) -> None:
    """The end of a `with`: what CUDA refused in it becomes an error that a user understands."""
    driver.Context.pop()
    if isinstance(error, CudaError):
        raise EdgeformerError(
            f"CUDA failed: {error}; start the program again, for a GPU that failed in a step "
            "fails in all that follow"
        ) from None


class Queue:
    """One stream and the memory that work on it uses. Nothing here waits but `synchronize`.

    Host arrays are pageable on purpose: the CPU of a Nano reads pinned memory 12 times slower.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._memory: List[Any] = []
        with gpu:
            self._stream = driver.Stream()
        self.handle = self._stream.handle
        self._strided = driver.Memcpy2D()

    def __enter__(self) -> "Queue":
        self._gpu._context.push()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        _leave(error)

    def allocate(self, size: int, what: str) -> int:
        """The address of new memory, a multiple of 256. It lives until `release`."""
        try:
            memory = driver.mem_alloc(max(size, ALIGNMENT))
        except driver.MemoryError:
            free, total = driver.mem_get_info()
            raise EdgeformerError(
                f"no GPU memory for {what}: {size >> 20} MiB wanted, {free >> 20} of "
                f"{total >> 20} MiB are free; close other programs, or export with a smaller "
                "capacity or chunk"
            ) from None
        self._memory.append(memory)
        address = int(memory)
        if address % ALIGNMENT:
            raise EdgeformerError(f"CUDA gave the address {address:#x}, no multiple of 256")
        return address

    def planes(self, count: int, size: int, what: str) -> Planes:
        """`count` blocks of `size` bytes, each of which begins at a multiple of 256."""
        stride = -(-size // ALIGNMENT) * ALIGNMENT
        return Planes(self.allocate(count * stride, what), stride, count)

    def send(self, address: int, array: np.ndarray) -> None:
        """Host to device. The array may change again after the next `synchronize`."""
        driver.memcpy_htod_async(address, array, self._stream)

    def fetch(self, array: np.ndarray, address: int) -> None:
        """Device to host. The array holds the numbers after the next `synchronize`."""
        driver.memcpy_dtoh_async(array, address, self._stream)

    def copy(self, target: int, source: int, size: int) -> None:
        driver.memcpy_dtod_async(target, source, size, self._stream)

    def zero(self, address: int, size: int) -> None:
        if size:
            driver.memset_d8_async(address, 0, size, self._stream)

    def fill_int32(self, address: int, value: int, count: int) -> None:
        if count:
            driver.memset_d32_async(address, value & 0xFFFFFFFF, count, self._stream)

    def copy_planes(self, target: Planes, start: int, source: Planes, at: int, size: int) -> None:
        """`size` bytes of every plane in one strided copy: from byte `at` on to byte `start` on."""
        copy = self._strided
        copy.set_src_device(source.address + at)
        copy.src_pitch = source.stride
        copy.set_dst_device(target.address + start)
        copy.dst_pitch = target.stride
        copy.width_in_bytes = size
        copy.height = target.count
        copy(self._stream)

    def synchronize(self) -> None:
        """Wait until all that was asked for is done."""
        self._stream.synchronize()

    def drain(self) -> None:
        """Wait before something is freed. A stream that failed cannot be waited for."""
        with contextlib.suppress(CudaError):
            self._stream.synchronize()

    def release(self) -> None:
        """Free the stream and the memory."""
        with self:
            self.drain()
            for memory in self._memory:
                memory.free()
            self._memory = []
            self._stream = None
