"""Computed prefixes on disk: the rows of a text, to be loaded where they would be computed.

A file has the layout of safetensors: the length of a JSON header, the header, then raw tensors.
"""

import hashlib
import json
import os
import struct
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from edgeformer.backends import Backend, Rows
from edgeformer.bundle import Bundle
from edgeformer.errors import EdgeformerError
from edgeformer.generation.cache import Reuse
from edgeformer.generation.conversation import checked_messages
from edgeformer.generation.prefill import prefill, refuse_length
from edgeformer.wholefile import write_whole

KIND = "edgeformer prefix 1"
MOST_HEADER = 16 << 20
DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
KEYS = ("kind", "name", "bundle", "dialect", "precision", "backend", "messages", "sha256")


class Prefix(NamedTuple):
    """What the rows of a prefix are."""

    ids: Tuple[int, ...]
    messages: Optional[List[Dict[str, Any]]]  # of the chats that begin so; None: a text's


def compute_rows(backend: Backend, ids: Sequence[int], capacity: int, chunk: int) -> Rows:
    """The rows of these ids, which then stand in the cache."""
    refuse_length(len(ids), capacity)
    _check_able(backend)
    backend.owner = object()
    chunk = min(chunk, capacity)
    start = Reuse().take(backend, ids, chunk)
    prefill(backend, ids, chunk, "token", held=start)
    return backend.read_rows(0, len(ids))


def save_rows(path: str, rows: Rows, prefix: Prefix, bundle: Bundle, backend: Backend) -> None:
    values = rows.values
    dtype = "F32"
    with np.errstate(over="ignore"):
        half = values.astype(DTYPES["F16"])
    if (half.astype(np.float32) == values).all():  # a cache in half precision
        dtype, values = "F16", half
    ids = np.array(prefix.ids, "<i4")
    data = [ids.tobytes(), np.ascontiguousarray(values, DTYPES[dtype]).data]
    ends = [ids.nbytes, ids.nbytes + values.nbytes]
    about = _about(bundle, backend)
    about["messages"] = json.dumps(prefix.messages)
    about["sha256"] = digest(about, data)
    header: Dict[str, Any] = {
        "__metadata__": about,
        "ids": {"dtype": "I32", "shape": [len(ids)], "data_offsets": [0, ends[0]]},
        "rows": {"dtype": dtype, "shape": list(values.shape), "data_offsets": ends},
    }
    text = json.dumps(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    write_whole(path, [struct.pack("<Q", len(text)), text, *data])


def load_rows(path: str, bundle: Bundle, backend: Backend) -> Prefix:
    """Put the rows of a file into the cache, in place of what is there."""
    _check_able(backend)
    about, tensors, raw = _read(path)
    for key, ours in _about(bundle, backend).items():
        if about[key] != ours and key != "name":
            raise EdgeformerError(
                f"the prefix {path!r} is of {about['name'][:60]!r}, its {key} is "
                f"{about[key][:20]!r}; that of {bundle.path} here is {ours[:20]!r}: compute it "
                "again with: python -m edgeformer prefix"
            )
    if digest(about, [raw]) != about["sha256"]:
        raise _damaged(path, "it has another sha256 than it says")
    count = tensors["ids"]["shape"][0]
    vocabulary, capacity = bundle.manifest.model["vocab_size"], bundle.manifest.capacity
    if count > capacity:
        raise EdgeformerError(
            f"the prefix {path!r} has {count} rows, the capacity is {capacity}; export with a "
            "larger one"
        )
    sizes = bundle.manifest.model
    wanted = [2 * sizes["n_layers"], count, sizes["n_kv_heads"] * sizes["head_dim"]]
    if tensors["rows"]["shape"] != wanted:
        raise _damaged(path, f"its rows are {tensors['rows']['shape']}, not {wanted}")
    ids = np.frombuffer(raw, "<i4", count)
    dtype = DTYPES[tensors["rows"]["dtype"]]
    values = np.frombuffer(raw, dtype, offset=ids.nbytes).reshape(tensors["rows"]["shape"])
    if count and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        raise _damaged(path, f"it holds ids outside 0 to {vocabulary - 1}")
    if not np.isfinite(values).all():
        raise _damaged(path, "it holds rows that are no numbers")
    known = tuple(ids.tolist())
    messages = _messages(path, about["messages"])
    backend.owner = object()
    backend.truncate(0)
    rows = Rows(np.arange(count, dtype=np.int32), values.astype(np.float32, copy=False))
    backend.write_rows(rows, known)
    return Prefix(known, messages)


def _about(bundle: Bundle, backend: Backend) -> Dict[str, str]:
    """What must be the same where rows are loaded. The hash is that of graphs and weights."""
    manifest = bundle.manifest
    apart = set(manifest.chat_templates.values())
    if manifest.tokenizer is not None:
        apart.add(manifest.tokenizer.file)
    files = sorted((name, entry.sha256) for name, entry in manifest.files.items())
    listed = json.dumps([entry for entry in files if entry[0] not in apart])
    return {
        "kind": KIND,
        "name": manifest.name,
        "bundle": hashlib.sha256(listed.encode("ascii")).hexdigest(),
        "dialect": manifest.dialect,
        "precision": backend.precision,
        "backend": backend.name,
    }


def _read(path: str) -> Tuple[Dict[str, str], Dict[str, Any], bytes]:
    """What a file says of itself, its header, and the bytes behind it, which fit that."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = file.read(8)
            length = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
            if not 2 <= length <= min(size - 8, MOST_HEADER):
                raise _damaged(path, f"it has {size} bytes and no header; it is no prefix")
            header = _parsed(path, file.read(length))
            about, tensors = _checked_header(path, header, size - 8 - length)
            raw = file.read(size - 8 - length)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EdgeformerError(f"{path!r} cannot be read: {reason}") from None
    return about, tensors, raw


def _parsed(path: str, text: bytes) -> Any:
    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is not JSON; it is no prefix") from None


def _checked_header(path: str, header: Any, size: int) -> Tuple[Dict[str, str], Dict[str, Any]]:
    """What it says of itself, and its two tensors, which are all of the `size` bytes behind it."""
    wanted = ["__metadata__", "ids", "rows"]
    if not isinstance(header, dict) or sorted(header) != wanted:
        raise _damaged(path, f"its header must hold {', '.join(wanted)}; it is no prefix")
    about, ids, rows = (header[name] for name in wanted)
    if not isinstance(about, dict) or about.get("kind") != KIND:
        raise _damaged(path, f"it is not of the kind {KIND!r}")
    if set(about) != set(KEYS) or not all(isinstance(value, str) for value in about.values()):
        raise _damaged(path, f"its header must say {', '.join(KEYS)}")
    shape = _shape(ids, ("I32",), 1), _shape(rows, tuple(DTYPES), 3)
    if shape[0] is None or shape[1] is None or shape[1][1] != shape[0][0]:
        raise _damaged(path, "its tensors are not ids [N] and rows [layers, N, width]")
    first = 4 * shape[0][0]
    end = first + DTYPES[rows["dtype"]].itemsize * shape[1][0] * shape[1][1] * shape[1][2]
    if [ids["data_offsets"], rows["data_offsets"]] != [[0, first], [first, end]] or end != size:
        raise _damaged(path, f"it has {size} bytes of tensors, its header speaks of {end}")
    return about, header


def _shape(tensor: Any, dtypes: Sequence[str], rank: int) -> Optional[List[int]]:
    if not isinstance(tensor, dict) or sorted(tensor) != ["data_offsets", "dtype", "shape"]:
        return None
    shape = tensor["shape"]
    if tensor["dtype"] not in dtypes or not isinstance(shape, list) or len(shape) != rank:
        return None
    whole = all(isinstance(size, int) and 0 <= size < 2**31 for size in shape)
    return shape if whole else None


def _messages(path: str, text: str) -> Optional[List[Dict[str, Any]]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged(path, "its messages are not JSON") from None
    return None if found is None else checked_messages(found, path)


def digest(about: Dict[str, str], data: Sequence[Any]) -> str:
    """sha256 of all that a file says and holds."""
    said = {key: value for key, value in about.items() if key != "sha256"}
    found = hashlib.sha256(json.dumps(said, sort_keys=True).encode("ascii"))
    for part in data:
        found.update(part)
    return found.hexdigest()


def _damaged(path: str, fact: str) -> EdgeformerError:
    return EdgeformerError(
        f"{path!r} cannot be loaded: {fact}; compute it again with: python -m edgeformer prefix"
    )


def _check_able(backend: Backend) -> None:
    if "rows" not in backend.abilities:
        raise EdgeformerError(f"the backend {backend.name} can neither read nor write cached rows")
