"""RoPE in a checkpoint's config: 4.x keys, `rope_parameters` of 5.x, both spellings of the kind."""

from __future__ import annotations

from typing import Any

from edgeformer.nn.config import Rope, RopeScaling
from edgeformer.nn.families.keys import Keys

# What a block of each kind may hold besides its kind, rope_theta and partial_rotary_factor.
KNOWN = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
    "yarn": (
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
    "longrope": (
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "short_factor",
        "long_factor",
    ),
}


def rope_from(
    keys: Keys,
    head_dim: int,
    max_positions: int,
    theta: float = 10000.0,
    part: float = 1.0,
    theta_key: str = "rope_theta",
    part_key: str = "partial_rotary_factor",
    kinds: dict[str, str] | None = None,
) -> Rope:
    """The one RoPE of a model. `theta` and `part` (of the head that turns) are its defaults.

    `kinds` are further names of kinds in this family. transformers 5 lets `rope_scaling`, where
    a config still has it, stand for all of `rope_parameters`; so do we.
    """
    own = keys.table("rope_scaling") or keys.table("rope_parameters") or {}
    keys.seen.update({"rope_scaling", "rope_parameters"})
    block = Keys(own, f"{keys.where}: rope parameters")
    theta = block.number("rope_theta", keys.number(theta_key, theta))
    part = block.number("partial_rotary_factor", keys.number(part_key, part))
    original = keys.integer("original_max_position_embeddings", None)
    rope = rope_of_block(block, theta, part, head_dim, max_positions, original, kinds or {})
    keys.problems += block.problems
    block.problems = []
    block.finish()
    return rope


def rope_of_block(
    block: Keys,
    theta: float,
    part: float,
    head_dim: int,
    max_positions: int,
    original: int | None = None,
    kinds: dict[str, str] | None = None,
) -> Rope:
    width = int(head_dim * part)
    scaling = _scaling(block, max_positions, original, kinds or {})
    if width % 2 or not 2 <= width <= head_dim:
        block.refuse(
            f"RoPE turns {width} of {head_dim} elements of a head; it must be an even number"
        )
        return Rope(theta=theta)
    return Rope(theta=theta, width=None if width == head_dim else width, scaling=scaling)


def _scaling(
    block: Keys, max_positions: int, original: int | None, kinds: dict[str, str]
) -> RopeScaling | None:
    kind = _kind(block, kinds)
    if kind not in KNOWN:
        block.refuse(f"RoPE of kind {kind!r} is not supported; known: {', '.join(KNOWN)}")
        block.seen.update(block.values)
        return None
    if kind == "default":
        return None
    inside = block.integer("original_max_position_embeddings", None, least=2)
    if kind == "dynamic":  # it stretches beyond the model's own length, whatever a key says
        if inside not in (None, max_positions):
            block.refuse(
                f"dynamic RoPE has original_max_position_embeddings {inside} beside "
                f"max_position_embeddings {max_positions}"
            )
        return RopeScaling(
            "dynamic", factor=block.number("factor"), original_max_positions=max_positions
        )
    if kind == "linear":
        return RopeScaling("linear", factor=block.number("factor"))
    original = original or inside or max_positions
    values: dict[str, Any] = {"original_max_positions": original}
    if kind == "llama3":
        for name in ("factor", "low_freq_factor", "high_freq_factor"):
            values[name] = block.number(name)
        return RopeScaling("llama3", **values)
    values["factor"] = block.number("factor", max_positions / original)
    values["attention_factor"] = block.number("attention_factor", None)
    if kind == "yarn":
        values["beta_fast"] = block.number("beta_fast", 32.0)
        values["beta_slow"] = block.number("beta_slow", 1.0)
        values["mscale"] = block.number("mscale", None) or None
        values["mscale_all_dim"] = block.number("mscale_all_dim", None) or None
        values["truncate"] = block.flag("truncate", True)
        return RopeScaling("yarn", **values)
    values["factor"] = max(values["factor"], 1.0)
    for name in ("short_factor", "long_factor"):
        values[name] = block.items(name, (int, float))
    return RopeScaling("longrope", **values)


def _kind(block: Keys, kinds: dict[str, str]) -> str:
    """`rope_type` or the older `type`; where both stand and differ, neither can be trusted."""
    new, old = block.raw("rope_type"), block.raw("type")
    kind = old if new is None else new
    if new is not None and old is not None and new != old:
        block.refuse(f"RoPE has two kinds, rope_type {new!r} and type {old!r}")
    return kinds.get(kind, kind) if isinstance(kind, str) else "default" if kind is None else "?"
