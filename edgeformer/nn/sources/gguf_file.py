"""One GGUF file: its metadata and where its tensors lie, read here with every count bounded.

The `gguf` package reads the same, but believes the file: a count of 2**60 makes it loop. From it
come the numbers of the quantization types and the code that undoes them.
"""

from __future__ import annotations

import math
import mmap
import os
import reprlib
import struct
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources.files import mapped, open_regular
from edgeformer.nn.sources.source import Stored

MOST_METADATA = 64 << 20  # bytes; a vocabulary of 262,144 takes about 10 MB
MOST_KEYS, MOST_TENSORS = 1 << 16, 1 << 16
MOST_NAME = 1 << 10
BLOCK = 1 << 21  # elements that are dequantized at a time

STRING, ARRAY = 8, 9
NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?"}
NUMBERS |= {10: "<u8", 11: "<i8", 12: "<f8"}

Type = gguf.GGMLQuantizationType
# Plain numbers that the package's `dequantize` leaves alone.
PLAIN = {Type.F32: "<f4", Type.F16: "<f2", Type.F64: "<f8"}


class Grid(NamedTuple):
    """A matrix in blocks of 32 inputs: w = scales * values, or scales * (values + 8) + low."""

    values: np.ndarray  # int16 [rows, blocks, 32], of 4 bits -8 to 7
    scales: np.ndarray  # float32 [rows, blocks]
    low: np.ndarray | None  # float32 [rows, blocks]
    bits: int


class GgufFile:
    """`metadata` has numeric arrays as numpy's; `spans` says what each tensor is and where."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < 24:
                raise EdgeformerError(f"`{path}` is no GGUF file: it has {size} bytes")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._read(Cursor(path, data, min(size, MOST_METADATA)), size)

    def load(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        """Dequantized to float32, some rows at a time."""
        stored, kind, begin = self.spans[name]
        self.check_type(name)
        out = torch.empty(stored.shape) if out is None else out
        with open_regular(self.path) as file:
            try:
                raw = mapped(file, begin, stored.bytes)
            except ValueError as error:  # the file has become shorter
                raise EdgeformerError(f"cannot map `{self.path}`: {error}") from None
        width = stored.shape[-1]
        rows = raw.reshape(-1, stored.bytes * width // math.prod(stored.shape))
        flat = out.view(-1, width).numpy()
        step = max(BLOCK // width, 1)
        with np.errstate(all="ignore"):  # NaN and infinity are looked for afterwards, by name
            for at in range(0, len(rows), step):
                block = np.ascontiguousarray(rows[at : at + step])
                if kind in PLAIN:
                    flat[at : at + step] = block.view(PLAIN[kind])
                else:
                    flat[at : at + step] = gguf.dequantize(block, kind)
        return out

    def grid(self, name: str) -> Grid | None:
        """The numbers of a tensor of type Q8_0, Q4_0 or Q4_1 as they are stored; None of others."""
        stored, kind, begin = self.spans[name]
        if kind not in (Type.Q8_0, Type.Q4_0, Type.Q4_1):
            return None
        with open_regular(self.path) as file:
            raw = mapped(file, begin, stored.bytes)
        rows, width = math.prod(stored.shape[:-1]), stored.shape[-1]
        blocks = np.ascontiguousarray(raw).reshape(rows, width // 32, -1)
        scales = blocks[..., :2].copy().view("<f2")[..., 0].astype(np.float32)
        if kind == Type.Q8_0:  # the scale, then 32 signed bytes
            return Grid(blocks[..., 2:].view(np.int8).astype(np.int16), scales, None, 8)
        offset = 0 if kind == Type.Q4_0 else 2  # the scale, perhaps the least value, 16 bytes
        low = None if not offset else blocks[..., 2:4].copy().view("<f2")[..., 0]
        nibbles = blocks[..., 2 + offset :]  # the first half of a block lies in the low bits
        values = np.concatenate([nibbles & 15, nibbles >> 4], -1).astype(np.int16)
        return Grid(values - 8, scales, None if low is None else low.astype(np.float32), 4)

    def check_type(self, name: str) -> None:
        kind = self.spans[name][1]
        if kind not in PLAIN and kind not in gguf.quants._type_traits:
            raise EdgeformerError(
                f"`{self.path}`: tensor {name} is {kind.name}, which the gguf package "
                f"{_version()} cannot dequantize; give a file of another type, such as Q8_0"
            )

    def _read(self, cursor: Cursor, size: int) -> None:
        magic, version = cursor.bytes(4), cursor.number("<u4")
        if magic != b"GGUF":
            raise EdgeformerError(f"`{self.path}` is no GGUF file: it begins with {magic!r}")
        if version not in (2, 3):
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in (2, 3)
            reason = "big-endian" if swapped else f"of version {version}"
            raise EdgeformerError(
                f"`{self.path}` is {reason}; versions 2 and 3, little-endian, are read: convert "
                "the model again with today's llama.cpp"
            )
        tensors, keys = cursor.number("<u8"), cursor.number("<u8")
        if tensors > MOST_TENSORS or keys > MOST_KEYS:
            raise EdgeformerError(
                f"`{self.path}` says that it has {tensors} tensors and {keys} keys; at most "
                f"{MOST_TENSORS} and {MOST_KEYS} are read"
            )
        self.metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = cursor.text(MOST_NAME)
            if key in self.metadata:
                raise EdgeformerError(f"`{self.path}` has the key {reprlib.repr(key)} twice")
            self.metadata[key] = cursor.value(cursor.number("<u4"), key)
        entries = [self._entry(cursor) for _ in range(tensors)]
        self._place(entries, cursor.at, size)

    def _entry(self, cursor: Cursor) -> tuple[str, Stored, Type, int]:
        name = cursor.text(MOST_NAME)
        where = f"`{self.path}`: tensor {reprlib.repr(name)}"
        count = cursor.number("<u4")
        if not 1 <= count <= 4:
            raise EdgeformerError(f"{where} has {count} dimensions; 1 to 4 are possible")
        shape = tuple(cursor.number("<u8") for _ in range(count))[::-1]  # innermost comes first
        number, offset = cursor.number("<u4"), cursor.number("<u8")
        if number not in list(Type):
            raise EdgeformerError(f"{where} has type {number}, which gguf {_version()} lacks")
        kind = Type(number)
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        if not all(shape) or math.prod(shape) >= 1 << 40 or shape[-1] % block:
            raise EdgeformerError(f"{where} of {kind.name} cannot have shape {list(shape)}")
        size = math.prod(shape) // block * block_bytes
        return name, Stored(shape, kind.name, size), kind, offset

    def _place(self, entries: list[tuple], end: int, size: int) -> None:
        alignment = self.metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 16:
            raise EdgeformerError(f"`{self.path}`: general.alignment is {alignment!r}")
        start = -(-end // alignment) * alignment
        self.spans: dict[str, tuple[Stored, Type, int]] = {}
        past, last = 0, ""
        for name, stored, kind, offset in sorted(entries, key=lambda entry: entry[3]):
            if name in self.spans:
                raise EdgeformerError(f"`{self.path}` has the tensor {reprlib.repr(name)} twice")
            if offset < past:
                raise EdgeformerError(f"`{self.path}`: tensors {last} and {name} overlap")
            past, last = offset + stored.bytes, name
            if start + past > size:
                raise EdgeformerError(
                    f"`{self.path}`: tensor {name} ends at byte {start + past}, the file has "
                    f"{size}; download it again"
                )
            self.spans[name] = stored, kind, start + offset


class Cursor:
    """A place in the metadata; whatever lies beyond its end is an error before it is read."""

    def __init__(self, path: Path, data: mmap.mmap, end: int) -> None:
        self.path, self.data, self.end, self.at = path, data, end, 0

    def bytes(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise EdgeformerError(
                f"`{self.path}`: {count} bytes of metadata are announced at byte {self.at}, but "
                f"it ends at {self.end} (of a file, {MOST_METADATA} bytes of metadata are read)"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: str) -> Any:
        size = np.dtype(kind).itemsize
        return np.frombuffer(self.bytes(size), kind)[0].item()

    def text(self, most: int = MOST_METADATA) -> str:
        (count,) = struct.unpack("<Q", self.bytes(8))
        if count > most:
            raise EdgeformerError(f"`{self.path}`: a name at byte {self.at} has {count} bytes")
        try:
            return self.bytes(count).decode("utf-8")
        except UnicodeDecodeError as error:
            raise EdgeformerError(f"`{self.path}`: text at byte {self.at}: {error}") from None

    def value(self, kind: int, key: str) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            raise EdgeformerError(f"`{self.path}`: key {reprlib.repr(key)} has type {kind}")
        inner, count = self.number("<u4"), self.number("<u8")
        if inner in NUMBERS:
            size = np.dtype(NUMBERS[inner]).itemsize
            return np.frombuffer(self.bytes(count * size), NUMBERS[inner])
        if inner != STRING or count * 8 > self.end - self.at:
            raise EdgeformerError(
                f"`{self.path}`: key {reprlib.repr(key)} is an array of {count} values of type "
                f"{inner}, which cannot be"
            )
        return [self.text() for _ in range(count)]


def _version() -> str:
    from importlib.metadata import version

    return version("gguf")
