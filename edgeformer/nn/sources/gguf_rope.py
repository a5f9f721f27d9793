"""RoPE in GGUF metadata, said as `rope_parameters` of a config.json."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgeformer.nn.sources.gguf import Metadata

FREQS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
MOST_FREQUENCIES = 1 << 12


def rope_parameters(metadata: Metadata, head_dim: int) -> dict[str, Any]:
    """What is not taken from the metadata here is refused later, by its name."""
    block: dict[str, Any] = {"partial_rotary_factor": _part(metadata, head_dim)}
    theta = metadata.take("rope.freq_base")
    if theta is not None:
        block["rope_theta"] = theta
    length = metadata.left.get("context_length")
    original = metadata.take("rope.scaling.original_context_length")
    kind = metadata.take("rope.scaling.type", "none")
    if metadata.has(FREQS) and kind == "none":  # Llama 3.1's scaling, as divisors
        divisors = _divisors(metadata, FREQS)
        return block | {
            "rope_type": "longrope",
            "factor": 1.0,
            "attention_factor": 1.0,
            "original_max_position_embeddings": length,
            "short_factor": divisors,
            "long_factor": divisors,
        }
    if metadata.has(LONG) and kind in ("none", "longrope"):
        block |= {
            "rope_type": "longrope",
            "original_max_position_embeddings": original or length,
            "short_factor": _divisors(metadata, SHORT),
            "long_factor": _divisors(metadata, LONG),
            "attention_factor": metadata.take("rope.scaling.attn_factor"),
        }
        metadata.take("rope.scaling.factor")
        return {key: value for key, value in block.items() if value is not None}
    if metadata.left.get("rope.scaling.attn_factor") == 1.0:
        metadata.take("rope.scaling.attn_factor")
    linear = metadata.take("rope.scale_linear")
    factor = metadata.take("rope.scaling.factor", linear)
    if kind == "none" and factor in (None, 1.0, 0.0):
        return block | {"rope_type": "default"}
    if kind == "none" and linear is not None:
        kind = "linear"
    if kind == "yarn":
        return block | _yarn(metadata, factor, original)
    return block | {"rope_type": kind, "factor": factor}


def _yarn(metadata: Metadata, factor: Any, original: Any) -> dict[str, Any]:
    """llama.cpp's defaults are those of the paper; a file that changes its strength is refused."""
    block = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    for name in ("beta_fast", "beta_slow"):
        block[name] = metadata.take(f"rope.scaling.yarn_{name}")
    for name in ("ext_factor", "attn_factor"):
        if metadata.left.get(f"rope.scaling.yarn_{name}") == 1.0:
            metadata.take(f"rope.scaling.yarn_{name}")
    return {key: value for key, value in block.items() if value is not None}


def _part(metadata: Metadata, head_dim: int) -> float:
    """The part of a head that turns, such that int(head_dim * part) is the file's number."""
    turned = metadata.take("rope.dimension_count", head_dim)
    if type(turned) is not int or not 0 < turned <= head_dim:
        return -1.0
    part = turned / head_dim
    return part if int(head_dim * part) == turned else math.nextafter(part, 2.0)


def _divisors(metadata: Metadata, name: str) -> list[float] | None:
    if not metadata.has(name) or math.prod(metadata.file.spans[name][0].shape) > MOST_FREQUENCIES:
        return None
    metadata.read.add(name)
    return metadata.file.load(name).flatten().tolist()
