"""Read the wire format of protocol buffers, with every length bounded by what is there."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from edgeformer.errors import EdgeformerError

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
MOST_VARINT = 10  # bytes

Value = int | bytes


def fields(raw: bytes, where: str) -> Iterator[tuple[int, int, Value]]:
    """(number, wire type, value) of every field of a message, in order."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at, where)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(raw, at, where)
        elif kind in (FIXED_64, FIXED_32, BYTES):
            size = 8 if kind == FIXED_64 else 4
            if kind == BYTES:
                size, at = _varint(raw, at, where)
            if size > len(raw) - at:
                raise EdgeformerError(
                    f"`{where}`: field {number} at byte {at} has {size} bytes, {len(raw) - at} "
                    "are left; download the file again"
                )
            value = raw[at : at + size]
            at += size
        else:
            raise EdgeformerError(f"`{where}`: byte {at} begins a field of unknown type {kind}")
        yield number, kind, value


def float_of(value: Value, where: str) -> float:
    if not isinstance(value, bytes) or len(value) != 4:
        raise EdgeformerError(f"`{where}`: {value!r:.40} is no float")
    return struct.unpack("<f", value)[0]


def text_of(value: Value, where: str) -> str:
    if not isinstance(value, bytes):
        raise EdgeformerError(f"`{where}`: {value!r:.40} is no text")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EdgeformerError(f"`{where}` holds text that is not UTF-8: {error}") from None


def signed(value: Value) -> int:
    """An int32, which is written as 64 bits."""
    return value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else int(value)


def _varint(raw: bytes, at: int, where: str) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(raw[at : at + MOST_VARINT]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value & (1 << 64) - 1, at + index + 1
    raise EdgeformerError(f"`{where}`: byte {at} begins a number without an end")
