"""How much of each kind goes, and the config that is left. Torch-free."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from edgeformer.errors import EdgeformerError
from edgeformer.nn.config import ModelConfig

_PART = re.compile(r"(ff|kv|layers)=(0?\.\d{1,9}|\d{1,9})")
MULTIPLE = 32  # of d_ff: a block of 4- or 8-bit weights, and what TensorRT's kernels tile by


class Removal(NamedTuple):
    """Neurons and KV groups of every layer, and whole layers.

    A KV group is a key/value head with the query heads that read it.
    """

    ff: int = 0
    kv: int = 0
    layers: int = 0


def parse_removal(text: str, c: ModelConfig, multiple: int) -> Removal:
    """`ff=0.25,kv=1,layers=2`: below 1 a share, else a count. d_ff ends on the nearest multiple."""
    sizes = {"ff": c.d_ff, "kv": c.n_kv_heads, "layers": c.n_layers}
    counts = {}
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise EdgeformerError(
                f"--remove has {part[:40]!r}; say ff=, kv= or layers= and a count, or a share "
                "below 1, as in --remove ff=0.25,kv=1,layers=2"
            )
        kind, number = found.groups()
        counts[kind] = round(float(number) * sizes[kind]) if "." in number else int(number)
    if counts.get("ff"):
        counts["ff"] = c.d_ff - _nearest_width(c.d_ff, c.d_ff - counts["ff"], multiple)
    removal = Removal(**counts)
    if removal == Removal():
        raise EdgeformerError(
            f"--remove {text[:60]} removes nothing: the model has d_ff {c.d_ff} (kept in multiples "
            f"of {multiple}: --multiple), {c.n_kv_heads} KV groups and {c.n_layers} layers"
        )
    check_removal(c, removal)
    return removal


def widths(d_ff: int, multiple: int) -> list[int]:
    """Widths that the feed-forward may be cut to, the widest first; its own is not among them."""
    return [n for n in range(d_ff - d_ff % multiple, 0, -multiple) if n < d_ff]


def largest_removal(c: ModelConfig, multiple: int) -> Removal:
    narrowest = min(widths(c.d_ff, multiple), default=c.d_ff)
    kv = 0 if c.position == "alibi" else c.n_kv_heads - 1
    return Removal(c.d_ff - narrowest, kv, c.n_layers - 1)


def check_removal(c: ModelConfig, removal: Removal) -> None:
    """Refuse what leaves no model, or none that a config can describe."""
    if removal.kv and c.position == "alibi":
        raise EdgeformerError(
            f"kv={removal.kv}: ALiBi's slopes follow from the number of heads ({c.n_heads}), so "
            "fewer heads would all get other slopes; remove ff or layers"
        )
    if removal.kv and c.n_kv_heads == 1:
        raise EdgeformerError(
            f"kv={removal.kv}: all {c.n_heads} query heads read the model's only KV head, which "
            "cannot go; remove ff or layers"
        )
    have = (("ff", c.d_ff), ("kv", c.n_kv_heads), ("layers", c.n_layers))
    for (kind, size), gone in zip(have, removal, strict=True):
        if not 0 <= gone < size:
            raise EdgeformerError(
                f"{kind}={gone}: the model has {size}, and at least one must stay; "
                f"remove at most {size - 1}"
            )


def pruned_config(
    c: ModelConfig, removal: Removal, kept_layers: Sequence[int] | None = None
) -> ModelConfig:
    """`kept_layers` in the old numbering; None: the first ones, where only sizes matter."""
    check_removal(c, removal)
    kept = range(c.n_layers - removal.layers) if kept_layers is None else kept_layers
    kv_heads = c.n_kv_heads - removal.kv
    window, ropes = c.window, c.rope_layers
    if isinstance(window, tuple):
        window = tuple(window[i] for i in kept)
    if ropes is not None:
        ropes = tuple(ropes[i] for i in kept)
    return dataclasses.replace(
        c,
        d_ff=c.d_ff - removal.ff,
        n_layers=len(kept),
        n_kv_heads=kv_heads,
        n_heads=kv_heads * (c.n_heads // c.n_kv_heads),
        window=window,
        rope_layers=ropes,
        local_rope=c.local_rope if "local" in (ropes or ()) else None,
    )


def _nearest_width(d_ff: int, wanted: int, multiple: int) -> int:
    """The allowed width that is nearest; d_ff itself is one, and 0 or less is left as it is."""
    if wanted <= 0:
        return wanted
    return min([d_ff, *widths(d_ff, multiple)], key=lambda width: abs(width - wanted))
