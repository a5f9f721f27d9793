"""weights.bin: the tensors of all graphs of a bundle, each distinct content once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from edgeformer.export.clean import Weight

FILE = "weights.bin"
ALIGNMENT = 4096  # a page: the file can be mapped, and a tensor uploaded from where it lies
INLINE = 1024  # bytes: smaller tensors stay in the graph


class WeightsFile:
    """Opened for writing; tensors are appended one at a time and never held."""

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / FILE, "wb")  # noqa: SIM115
        self._offsets: dict[bytes, int] = {}

    def __enter__(self) -> WeightsFile:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with self._file:
            if error is None:
                self._file.flush()
                os.fsync(self._file.fileno())

    def initializers(self, weights: dict[str, Weight]) -> Iterator[TensorProto]:
        """Store each tensor and describe it; values keep their names."""
        for value, weight in weights.items():
            array = weight.array()
            array = np.ascontiguousarray(array).reshape(array.shape)  # it makes 0-d arrays 1-d
            if array.nbytes < INLINE:
                yield numpy_helper.from_array(array, value)
                continue
            tensor = TensorProto(name=value, dims=array.shape)
            tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": FILE, "offset": self.store(array), "length": array.nbytes}
            for key, entry in place.items():
                tensor.external_data.add(key=key, value=str(entry))
            yield tensor

    def store(self, array: np.ndarray) -> int:
        """Offset of the content in the file. Equal bytes are one, whatever their shape."""
        content = memoryview(array).cast("B")
        digest = hashlib.sha256(content).digest()
        if digest not in self._offsets:
            self._file.write(bytes(-self._file.tell() % ALIGNMENT))
            self._offsets[digest] = self._file.tell()
            self._file.write(content)
        return self._offsets[digest]
