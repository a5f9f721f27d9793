"""Which bytes of which files an ONNX graph takes its weights from, read without onnx.

onnxruntime 1.10, the Nano's, follows a location such as `../other` and reads past a file's end.
"""

import mmap
from typing import Any, Dict, Iterator, List, Tuple

from edgeformer.errors import BundleError

# Protobuf field numbers of onnx.proto: the message kinds in which a tensor may stand.
NESTED = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def external_data(path: str, name: str) -> Iterator[Dict[str, str]]:
    """The `external_data` of each tensor that has any: location, offset, length."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from _tensors(data)
    except OSError as error:
        raise BundleError(f"{name} cannot be read: {error.strerror} ({path})") from None
    except (ValueError, IndexError):  # empty; a length beyond the end; bytes that are not text
        raise BundleError(f"{name} is not an ONNX file; copy or export the bundle again") from None


def _tensors(data: mmap.mmap) -> Iterator[Dict[str, str]]:
    """A stack, not recursion: a hostile file may nest as deeply as it likes."""
    stack = [("model", 0, len(data))]
    while stack:
        kind, start, end = stack.pop()
        entries = {}
        for field, at, stop in _fields(data, start, end):
            inner = NESTED[kind].get(field)
            if inner == "entry":
                parts = {number: data[a:b] for number, a, b in _fields(data, at, stop)}
                entries[parts.get(1, b"").decode("utf-8")] = parts.get(2, b"").decode("utf-8")
            elif inner is not None:
                stack.append((inner, at, stop))
        if entries:
            yield entries


def _fields(data: mmap.mmap, start: int, end: int) -> List[Tuple[int, int, int]]:
    """(field number, first byte, end) of every length-delimited field of one message."""
    found = [field for field in message_fields(data, start, end) if field[1] == BYTES]
    return [(number, at, stop) for number, _, at, stop in found]


def message_fields(data: Any, start: int, end: int) -> Iterator[Tuple[int, int, int, int]]:
    """(field number, wire type, value, end) of every field of one message.

    The value of a varint is its number, of any other field its first byte. A field that ends
    behind its message is a ValueError; bytes that end too early are an IndexError.
    """
    at = start
    while at < end:
        key, at = varint(data, at)
        wire = key & 7
        if wire == VARINT:
            value, at = varint(data, at)
        elif wire == BYTES:
            size, value = varint(data, at)
            at = value + size
        elif wire in (FIXED32, FIXED64):
            value, at = at, at + (4 if wire == FIXED32 else 8)
        else:
            raise ValueError(f"wire type {wire}")
        if at > end:
            raise ValueError("a field ends behind its message")
        yield key >> 3, wire, value, at


def varint(data: Any, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
