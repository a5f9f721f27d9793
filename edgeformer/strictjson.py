"""JSON from files that nobody vouches for: read with limits, checked value by value.

Every check takes the value and `where` it stands, so that an error names the key.
"""

import json
import math
import os
import stat
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, TypeVar

from edgeformer.errors import BundleError

Item = TypeVar("Item")

MOST_BYTES = 16 << 20
MOST_DIGITS = 20
MOST_INT32 = 2**31 - 1


def read(path: str, where: str) -> Any:
    """The JSON value in a regular file of at most 16 MiB, never through a symbolic link."""
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise BundleError(f"{where} is not a regular file; copy or export the bundle again")
        if found.st_size > MOST_BYTES:
            raise BundleError(f"{where} has {found.st_size} bytes, the limit is {MOST_BYTES}")
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BundleError(f"{where} cannot be read: {error.strerror} ({path})") from None
    return parse(raw, where)


def parse(raw: bytes, where: str) -> Any:
    """Strict JSON: UTF-8, no repeated key, no NaN, no number that takes long to read."""

    def refuse(literal: str) -> None:
        raise BundleError(f"{where} holds {literal}, which is not JSON")

    def integer(digits: str) -> int:
        if len(digits) > MOST_DIGITS:
            raise BundleError(f"{where} holds a number of {len(digits)} digits")
        return int(digits)

    def pairs(items: List[Tuple[str, Any]]) -> Dict[str, Any]:
        result = dict(items)
        if len(result) < len(items):
            names = [key for key, _ in items]
            twice = next(key for key in names if names.count(key) > 1)
            raise BundleError(f"{where} holds the key {shown(twice)} twice")
        return result

    try:
        return json.loads(
            raw.decode("utf-8"), parse_constant=refuse, parse_int=integer, object_pairs_hook=pairs
        )
    except RecursionError:
        raise BundleError(f"{where} is nested too deeply") from None
    except ValueError as error:  # bytes that are not UTF-8, text that is not JSON
        raise BundleError(f"{where} is not JSON: {error}; export the bundle again") from None


def shown(value: Any) -> str:
    """A value for an error message, cut where it is long."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value) if not isinstance(value, str) else repr(value[:61])
    return text if len(text) <= 60 else text[:57] + "..."


def record(value: Any, where: str, keys: Sequence[str]) -> Dict[str, Any]:
    """An object with exactly these keys."""
    table(value, where)
    missing = [key for key in keys if key not in value]
    unknown = sorted(key for key in value if key not in keys)
    if missing:
        raise BundleError(f"{where} lacks the key {shown(missing[0])}")
    if unknown:
        raise BundleError(
            f"{where} has the unknown key {shown(unknown[0])}; it was made for another version of "
            "edgeformer: export it again, or install that version here"
        )
    return value


def table(value: Any, where: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise BundleError(f"{where} is {shown(value)}, not an object")
    return value


def integer(value: Any, where: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BundleError(f"{where} is {shown(value)}; it must be an integer from {low} to {high}")
    return value


def truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise BundleError(f"{where} is {shown(value)}; it must be true or false")
    return value


def number(value: Any, where: str, low: float, high: float) -> float:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or not low <= value <= high:
        raise BundleError(f"{where} is {shown(value)}; it must be a number from {low} to {high}")
    return float(value)


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise BundleError(f"{where} is {shown(value)}, not a string")
    return value


def choice(value: Any, where: str, known: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise BundleError(
            f"{where} is {shown(value)}; this version of edgeformer knows {', '.join(known)}"
        )
    return value


def items(value: Any, where: str, check: Callable[[Any, str], Item]) -> Tuple[Item, ...]:
    if not isinstance(value, list):
        raise BundleError(f"{where} is {shown(value)}, not a list")
    return tuple(check(item, f"{where}[{index}]") for index, item in enumerate(value))


def optional(value: Any, where: str, check: Callable[[Any, str], Item]) -> Optional[Item]:
    return None if value is None else check(value, where)
