"""What each family's mapping demands of a config, read off the mapping while it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from edgeformer.nn.families import FAMILIES, config_of
from edgeformer.nn.families.keys import PLAIN, Keys
from tests.export.families.models import shapes_of
from tests.nn.families.shapes import SHAPES

Demands = dict[str, set[str]]  # the values that a key may have; none: it must be absent


def demands(family: str) -> Demands:
    """Of all shapes together. Those that every family has are in `PLAIN`."""
    found: Demands = {}
    for shape in shapes_of(family):
        values = json.loads(SHAPES[shape]().to_json_string(use_diff=False))
        with _recorded(found):
            config_of(FAMILIES[family], values)
    return {name: found[name] for name in sorted(found) if name.split(".")[-1] not in PLAIN}


@contextmanager
def _recorded(found: Demands) -> Iterator[None]:
    """The real methods run, and what they are asked is written down."""
    only, choice = Keys.only, Keys.choice

    def recording_only(self: Keys, name: str, *allowed: Any) -> None:
        found.setdefault(_full(self, name), set()).update(map(word, allowed))
        only(self, name, *allowed)

    def recording_choice(self: Keys, name: str, choices: dict[str, Any], *default: Any) -> Any:
        found.setdefault(_full(self, name), set()).update(choices)
        return choice(self, name, choices, *default)

    with patch.object(Keys, "only", recording_only), patch.object(Keys, "choice", recording_choice):
        yield


def word(value: Any) -> str:
    """A value as config.json has it, but without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def _full(keys: Keys, name: str) -> str:
    """With the inner tables that the key lies in."""
    return ".".join([*keys.where.split(": ")[1:], name])
