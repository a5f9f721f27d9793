"""Reading files that nobody vouches for: regular ones only, bounded, JSON of bounded size."""

from __future__ import annotations

import json
import mmap
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from edgeformer.errors import EdgeformerError

MOST_JSON = 64 << 20  # bytes; the largest tokenizer.json in use has about 35 MB


def open_regular(path: Path) -> BinaryIO:
    """Links are followed, since the hub's cache is made of them; pipes and devices are refused."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise EdgeformerError(f"`{path}` is not a regular file")
        return open(path, "rb")
    except OSError as error:
        raise EdgeformerError(f"cannot read `{path}`: {error.strerror}") from error


def read_json(path: Path, most: int = MOST_JSON) -> dict[str, Any]:
    """A JSON object."""
    with open_regular(path) as file:
        raw = file.read(most + 1)
    return parse_json(raw, f"`{path}`", most)


def parse_json(raw: bytes, what: str, most: int = MOST_JSON) -> dict[str, Any]:
    if len(raw) > most:
        raise EdgeformerError(f"{what} has more than {most} bytes")
    try:
        values = json.loads(raw, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise EdgeformerError(f"{what} is not JSON that can be used: {reason}") from None
    if not isinstance(values, dict):
        raise EdgeformerError(f"{what} holds {type(values).__name__}, not a table of keys")
    return values


def read_text(path: Path, most: int) -> str:
    with open_regular(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise EdgeformerError(f"`{path}` has more than {most} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EdgeformerError(f"`{path}` is not UTF-8: {error}") from None


def mapped(file: BinaryIO, offset: int, size: int) -> np.ndarray:
    """Bytes of a file, mapped for as long as the array lives: read pages go with it.

    A mapping of the whole file would stay in memory beside the weights that are made of it.
    """
    skip = offset % mmap.ALLOCATIONGRANULARITY
    pages = mmap.mmap(file.fileno(), size + skip, access=mmap.ACCESS_READ, offset=offset - skip)
    return np.frombuffer(pages, np.uint8, size, skip)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the key {name[:60]!r} stands twice")
        values[name] = value
    return values
