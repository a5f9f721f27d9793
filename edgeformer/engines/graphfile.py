"""The nodes and initializers of a bundle's graph, read without onnx and without the weights."""

import mmap
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from edgeformer.errors import BundleError
from edgeformer.onnxfile import BYTES, VARINT, message_fields, varint

# TensorProto types: bytes of an element, and whether an engine may halve it.
ELEMENT_BYTES = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}
FLOAT, UINT8, INT8, INT32, INT64, FLOAT16 = 1, 2, 3, 6, 7, 10
MOST_VALUES = 64  # of a constant that holds sizes


class Initializer(NamedTuple):
    """A stored tensor. `values`: of a small INT64 or INT32 tensor in the file itself, else None."""

    name: str
    element: int
    shape: Tuple[int, ...]
    place: Tuple[str, str]  # (location, offset) of external data; else ("", its own name)
    values: Optional[Tuple[int, ...]]

    @property
    def count(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total

    @property
    def bytes(self) -> int:
        return self.count * ELEMENT_BYTES[self.element]


class Node(NamedTuple):
    """One operation; `attributes` holds its integers and lists of integers."""

    operator: str
    name: str
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    attributes: Dict[str, Any]


class GraphFile(NamedTuple):
    """What a plan needs to know of an ONNX file."""

    nodes: Tuple[Node, ...]
    initializers: Dict[str, Initializer]


def read_graph(path: str, name: str) -> GraphFile:
    """Read the header of one graph; `name` names it in errors."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _graph(data)
    except OSError as error:
        raise BundleError(f"{name} cannot be read: {error.strerror} ({path})") from None
    except (ValueError, IndexError, KeyError):
        raise BundleError(f"{name} is not an ONNX file; copy or export the bundle again") from None


def _graph(data: Any) -> GraphFile:
    nodes: List[Node] = []
    initializers = {}
    for number, wire, at, stop in message_fields(data, 0, len(data)):
        if (number, wire) != (7, BYTES):  # ModelProto.graph
            continue
        for field, kind, start, end in message_fields(data, at, stop):
            if (field, kind) == (1, BYTES):
                nodes.append(_node(data, start, end))
            elif (field, kind) == (5, BYTES):
                tensor = _initializer(data, start, end)
                initializers[tensor.name] = tensor
    return GraphFile(tuple(nodes), initializers)


def _node(data: Any, start: int, end: int) -> Node:
    texts: Dict[int, List[str]] = {1: [], 2: [], 3: [], 4: []}
    attributes = {}
    for number, wire, at, stop in message_fields(data, start, end):
        if wire == BYTES and number in texts:
            texts[number].append(data[at:stop].decode("utf-8"))
        elif (number, wire) == (5, BYTES):
            key, value = _attribute(data, at, stop)
            attributes[key] = value
    name, operator = "".join(texts[3][-1:]), "".join(texts[4][-1:])
    return Node(operator, name, tuple(texts[1]), tuple(texts[2]), attributes)


def _attribute(data: Any, start: int, end: int) -> Tuple[str, Any]:
    name, value, values = "", None, []
    for number, wire, at, stop in message_fields(data, start, end):
        if (number, wire) == (1, BYTES):
            name = data[at:stop].decode("utf-8")
        elif (number, wire) == (3, VARINT):
            value = _signed(at)
        elif number == 8:
            values += _integers(data, wire, at, stop)
    return name, values or value


def _initializer(data: Any, start: int, end: int) -> Initializer:
    shape: List[int] = []
    element, name, entries = 0, "", {}
    numbers: List[int] = []
    for number, wire, at, stop in message_fields(data, start, end):
        if number == 1:
            shape += _integers(data, wire, at, stop)
        elif (number, wire) == (2, VARINT):
            element = at
        elif (number, wire) == (8, BYTES):
            name = data[at:stop].decode("utf-8")
        elif number in (5, 7) and stop - at <= 10 * MOST_VALUES:  # int32_data, int64_data
            numbers += _integers(data, wire, at, stop)
        elif (number, wire) == (9, BYTES) and stop - at <= 8 * MOST_VALUES:  # raw_data
            if element in (INT32, INT64):
                width = ELEMENT_BYTES[element]
                raw = data[at:stop]
                parts = [raw[i : i + width] for i in range(0, len(raw), width)]
                numbers = [int.from_bytes(part, "little", signed=True) for part in parts]
        elif (number, wire) == (13, BYTES):
            parts = {k: data[a:b] for k, _, a, b in message_fields(data, at, stop)}
            entries[parts.get(1, b"").decode("utf-8")] = parts.get(2, b"").decode("utf-8")
    if element not in ELEMENT_BYTES or any(size < 0 for size in shape):
        raise ValueError("a tensor of an unknown type or size")
    place = (
        (entries["location"], entries.get("offset", "0")) if "location" in entries else ("", name)
    )
    known = element in (INT32, INT64) and "location" not in entries
    found = Initializer(name, element, tuple(shape), place, None)
    return found._replace(values=tuple(numbers)) if known and len(numbers) == found.count else found


def _integers(data: Any, wire: int, at: int, stop: int) -> Iterator[int]:
    """A repeated integer field: one number, or packed ones."""
    if wire == VARINT:
        yield _signed(at)
    while wire == BYTES and at < stop:
        value, at = varint(data, at)
        yield _signed(value)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
