"""How a tensor of ours is made of a checkpoint's: pieces that lie below one another.

The functions here work on `meta` tensors as well: shapes are checked before a weight is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

Make = Callable[..., torch.Tensor]


class Piece(NamedTuple):
    """Some rows of our tensor: `make` of the checkpoint's tensors, or (None) one as it is."""

    names: tuple[str, ...]
    make: Make | None = None


Recipe = tuple[Piece, ...]


def rows(*names: str) -> Recipe:
    """These tensors as they are, each below the one before."""
    return tuple(Piece((name,)) for name in names)


def made(make: Make, *names: str) -> Recipe:
    return (Piece(names, make),)


def filled(value: float, *shape: int) -> Recipe:
    """A constant that the checkpoint does not store."""
    return (Piece((), lambda: torch.full(shape, value)),)


def transposed(name: str) -> Recipe:
    """A weight stored as [in, out], as GPT-2's Conv1D does."""
    return made(lambda w: w.t(), name)


def fused_by_head(heads: int, name: str) -> Recipe:
    """Query, key and value of each head side by side -> all queries, all keys, all values."""

    def separate(w: torch.Tensor) -> torch.Tensor:
        by_head = w.reshape(heads, 3, -1, *w.shape[1:])  # [heads, 3, head_dim, ...]
        return by_head.transpose(0, 1).reshape(w.shape)

    return made(separate, name)


def fused_by_group(kv_heads: int, group: int, name: str) -> Recipe:
    """For each key head its `group` queries, its key and its value -> queries, keys, values."""

    def separate(w: torch.Tensor) -> torch.Tensor:
        by_group = w.reshape(kv_heads, group + 2, -1, *w.shape[1:])
        parts = (by_group[:, :group], by_group[:, group : group + 1], by_group[:, group + 1 :])
        return torch.cat([p.reshape(-1, *w.shape[1:]) for p in parts])

    return made(separate, name)


def stacked(*names: str) -> Recipe:
    """Vectors, one a row."""
    return made(lambda *vectors: torch.stack(vectors), *names)


def for_layers(table: Mapping[str, Recipe | str], n_layers: int) -> dict[str, Recipe]:
    """Write `{i}` in names of ours and of theirs as the number of each layer.

    A plain string stands for one tensor as it is.
    """
    recipes: dict[str, Recipe] = {}
    for ours, theirs in table.items():
        recipe = rows(theirs) if isinstance(theirs, str) else theirs
        for i in range(n_layers if "{i}" in ours else 1):
            recipes[ours.replace("{i}", str(i))] = tuple(
                Piece(tuple(name.replace("{i}", str(i)) for name in piece.names), piece.make)
                for piece in recipe
            )
    return recipes
