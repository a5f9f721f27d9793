"""Frozen dataclasses that are checked against their own annotations, from Python or from JSON."""

from __future__ import annotations

import dataclasses
import functools
import math
import reprlib
import types
import typing
from typing import Any, Literal

from edgeformer.errors import EdgeformerError


class ConfigError(EdgeformerError):
    """A model configuration that cannot exist; the message has both numbers."""


def read_record(cls: type, values: Any, what: str) -> Any:
    """Build a record from a JSON object; unknown and missing keys are errors."""
    if not isinstance(values, dict):
        raise ConfigError(f"{what} is {reprlib.repr(values)}; it must be a table of keys")
    fields = {f.name: f for f in dataclasses.fields(cls)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ConfigError(
            f"{what} has unknown keys: {', '.join(map(reprlib.repr, unknown))}; "
            f"known: {', '.join(sorted(fields))}"
        )
    missing = [
        name
        for name, f in fields.items()
        if f.default is dataclasses.MISSING and name not in values
    ]
    if missing:
        raise ConfigError(f"{what} lacks required keys: {', '.join(missing)}")
    return cls(**values)


def check_types(record: Any, what: str) -> None:
    """Hold every field against its annotation, in `__post_init__`.

    Lists become tuples, whole numbers become floats where floats belong, and JSON objects become
    records. A bool is no number here, and no float is NaN or infinite.
    """
    for name, hint in _hints(type(record)).items():
        object.__setattr__(record, name, _value(hint, getattr(record, name), f"{what}: {name}"))


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any, what: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in args:
            if _fits(option, value):
                return _value(option, value, what)
    elif dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return read_record(hint, value, what)
    elif _fits(hint, value):
        if origin is tuple:
            return tuple(_value(args[0], item, what) for item in value)
        return float(value) if hint is float else value
    raise ConfigError(f"{what} is {reprlib.repr(value)}; expected {_name(hint)}")


def _fits(hint: Any, value: Any) -> bool:
    """Whether the value has the right outer shape; what it contains is checked when it is read."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        return isinstance(value, str) and value in typing.get_args(hint)
    if origin is tuple:
        return isinstance(value, (list, tuple))
    if dataclasses.is_dataclass(hint):
        return isinstance(value, (dict, hint))
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        whole = isinstance(value, int) and abs(value) <= 2**53
        return whole or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, hint)


def _name(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " | ".join(map(repr, typing.get_args(hint)))
    if hint is float:
        return "a finite number"
    return hint.__name__ if isinstance(hint, type) else str(hint)
