"""One safetensors file, read by its own header: every offset is checked before a byte is used."""

from __future__ import annotations

import math
import os
import reprlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgeformer.errors import EdgeformerError
from edgeformer.nn.sources.files import mapped, open_regular, parse_json
from edgeformer.nn.sources.source import Stored

MOST_HEADER = 16 << 20  # bytes: room for 100,000 tensors
BLOCK = 1 << 22  # elements that are converted at a time

ITEM_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 1),
}
WEIGHTS = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


class SafetensorsFile:
    """Names, shapes and offsets; `load` reads one tensor as float32."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(MOST_HEADER, size - 8):
                raise EdgeformerError(
                    f"`{path}` is no safetensors file: it has {size} bytes and says that its "
                    f"header has {length} (at most {MOST_HEADER} are read)"
                )
            header = parse_json(file.read(length), f"the header of `{path}`")
        self.start = 8 + length
        header.pop("__metadata__", None)
        self.spans: dict[str, tuple[Stored, int]] = {
            name: self._entry(name, entry, size - self.start) for name, entry in header.items()
        }
        self._check_overlap()

    def load(self, name: str, out: torch.Tensor | None = None) -> torch.Tensor:
        stored, begin = self.spans[name]
        if stored.precision not in WEIGHTS:
            raise EdgeformerError(
                f"`{self.path}`: tensor {name} is {stored.precision}; weights must be "
                f"{', '.join(WEIGHTS)}. A quantized checkpoint cannot be used: give the one that "
                "it was made from, or a GGUF"
            )
        out = torch.empty(stored.shape) if out is None else out
        if not stored.bytes:
            return out
        with open_regular(self.path) as file:
            try:
                raw = mapped(file, self.start + begin, stored.bytes)
            except ValueError as error:  # the file has become shorter
                raise EdgeformerError(f"cannot map `{self.path}`: {error}") from None
        values, flat = raw.view(WEIGHTS[stored.precision]), out.view(-1).numpy()
        for at in range(0, len(values), BLOCK):
            block = values[at : at + BLOCK]
            if stored.precision == "BF16":  # the upper half of a float32
                block = (block.astype(np.uint32) << 16).view(np.float32)
            flat[at : at + BLOCK] = block
        return out

    def _entry(self, name: str, entry: Any, room: int) -> tuple[Stored, int]:
        where = f"`{self.path}`: tensor {reprlib.repr(name)}"
        keys = {"dtype", "shape", "data_offsets"}
        if not isinstance(entry, dict) or set(entry) != keys:
            raise EdgeformerError(f"{where} has not the keys {', '.join(sorted(keys))}")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
            raise EdgeformerError(f"{where} is {reprlib.repr(dtype)}, an unknown type")
        for numbers in (shape, offsets):
            if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
                raise EdgeformerError(f"{where}: {reprlib.repr(numbers)} is no list of counts")
        if len(shape) > 8 or len(offsets) != 2 or not offsets[0] <= offsets[1] <= room:
            raise EdgeformerError(
                f"{where} has shape {reprlib.repr(shape)} at bytes {reprlib.repr(offsets)} of the "
                f"{room} that the file has"
            )
        size = math.prod(shape) * ITEM_BYTES[dtype]
        if size != offsets[1] - offsets[0]:
            raise EdgeformerError(
                f"{where}: {dtype} {shape} needs {size} bytes, its place has "
                f"{offsets[1] - offsets[0]}"
            )
        return Stored(tuple(shape), dtype, size), offsets[0]

    def _check_overlap(self) -> None:
        end, last = 0, ""
        for name, (stored, begin) in sorted(self.spans.items(), key=lambda item: item[1][1]):
            if stored.bytes and begin < end:
                raise EdgeformerError(f"`{self.path}`: tensors {last} and {name} overlap")
            end, last = max(end, begin + stored.bytes), name
