"""Rotary position tables (Su et al. 2021, arXiv:2104.09864) and their scalings.

Frequencies are computed in float64 on the CPU, so that far positions keep their angles.
"""

from __future__ import annotations

import math

import torch

from edgeformer.nn.config import Rope, RopeScaling


def rope_tables(rope: Rope, head_dim: int, max_positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and signed sine rows for `rotate`, each float32 [max_positions, width]."""
    inv_freq, factor = rope_frequencies(rope, head_dim, max_positions)
    angles = torch.arange(max_positions, dtype=torch.float64)[:, None] * inv_freq  # [pos, width/2]
    cos, sin = angles.cos() * factor, angles.sin() * factor
    return torch.cat([cos, cos], -1).float(), torch.cat([-sin, sin], -1).float()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the first `cos.shape[-1]` elements of each head; x [T, heads, head_dim].

    The two halves of the rotated part are a pair (i, i + width/2), as in transformers.
    """
    # plain numbers: a traced graph then holds no Shape node for them
    width, head_dim = int(cos.shape[-1]), int(x.shape[-1])
    if width < head_dim:
        turned, rest = x.split([width, head_dim - width], -1)
        return torch.cat([rotate(turned, cos, sin), rest], -1)
    a, b = x.split([width // 2, width // 2], -1)
    return x * cos + torch.cat([b, a], -1) * sin


def rope_frequencies(rope: Rope, head_dim: int, max_positions: int) -> tuple[torch.Tensor, float]:
    """Inverse frequencies, float64 [width/2], and the factor on cos and sin."""
    width = head_dim if rope.width is None else rope.width
    exponent = torch.arange(0, width, 2, dtype=torch.float64) / width
    plain = rope.theta**-exponent
    s = rope.scaling
    if s is None:
        return plain, 1.0
    if s.kind == "linear":
        return plain / s.factor, 1.0
    if s.kind == "dynamic":
        return _dynamic(rope.theta, s, exponent, width, max_positions), 1.0
    if s.kind == "llama3":
        return _llama3(plain, s), 1.0
    if s.kind == "yarn":
        return _yarn(plain, rope.theta, s, width), _yarn_factor(s)
    return _longrope(plain, s, max_positions)


def _dynamic(
    theta: float, s: RopeScaling, exponent: torch.Tensor, width: int, max_positions: int
) -> torch.Tensor:
    """NTK-aware scaling with the base chosen for `max_positions` tokens."""
    length = max(max_positions, s.original_max_positions)
    stretch = s.factor * length / s.original_max_positions - (s.factor - 1)
    return (theta * stretch ** (width / (width - 2))) ** -exponent


def _llama3(plain: torch.Tensor, s: RopeScaling) -> torch.Tensor:
    """Llama 3.1: long waves are divided by the factor, short ones kept, a ramp between."""
    waves = 2 * math.pi / plain
    smooth = (s.original_max_positions / waves - s.low_freq_factor) / (
        s.high_freq_factor - s.low_freq_factor
    )
    smooth = smooth.clamp(0, 1)
    return (1 - smooth) * plain / s.factor + smooth * plain


def _yarn(plain: torch.Tensor, theta: float, s: RopeScaling, width: int) -> torch.Tensor:
    """YaRN (arXiv:2309.00071): a ramp over dimensions between kept and divided frequencies."""

    def dimension(rotations: float) -> float:
        turns = s.original_max_positions / (rotations * 2 * math.pi)
        return width * math.log(turns) / (2 * math.log(theta))

    low, high = dimension(s.beta_fast), dimension(s.beta_slow)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    if low == high:
        high += 0.001
    ramp = (torch.arange(width // 2, dtype=torch.float64) - low) / (high - low)
    divided = ramp.clamp(0, 1)
    return plain / s.factor * divided + plain * (1 - divided)


def _yarn_factor(s: RopeScaling) -> float:
    def magnitude(mscale: float) -> float:
        return 1.0 if s.factor <= 1 else 0.1 * mscale * math.log(s.factor) + 1.0

    if s.attention_factor is not None:
        return s.attention_factor
    if s.mscale and s.mscale_all_dim:
        return magnitude(s.mscale) / magnitude(s.mscale_all_dim)
    return magnitude(1.0)


def _longrope(
    plain: torch.Tensor, s: RopeScaling, max_positions: int
) -> tuple[torch.Tensor, float]:
    """LongRoPE (arXiv:2402.13753): a divisor for each frequency, chosen by length."""
    stretched = max_positions > s.original_max_positions
    divisors = torch.tensor(s.long_factor if stretched else s.short_factor, dtype=torch.float64)
    if s.attention_factor is not None:
        factor = s.attention_factor
    elif s.factor <= 1:
        factor = 1.0
    else:
        factor = math.sqrt(1 + math.log(s.factor) / math.log(s.original_max_positions))
    return plain / divisors, factor
