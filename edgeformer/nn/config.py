"""What a decoder is made of: independent choices in one immutable record.

Nothing here imports torch: presets and manifests are read without it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal

from edgeformer.nn.config_checks import check_combination, check_sizes
from edgeformer.nn.record import ConfigError, check_types, read_record

__all__ = ["GATED", "ConfigError", "ModelConfig", "Rope", "RopeScaling"]

Position = Literal["rope", "learned", "sinusoidal", "alibi", "none"]
NormKind = Literal["rmsnorm", "layernorm"]
NormPlacement = Literal["pre", "post", "sandwich", "output"]
FeedForwardKind = Literal["swiglu", "geglu", "geglu_tanh", "gelu", "gelu_tanh", "relu"]
QueryKeyNorm = Literal["none", "head", "heads", "full"]  # heads: each has its own weights
Parallel = Literal["none", "one_norm", "two_norms"]
RopeChoice = Literal["global", "local", "none"]

GATED = ("swiglu", "geglu", "geglu_tanh")


@dataclass(frozen=True)
class RopeScaling:
    """How RoPE angles are stretched beyond the length that a model was trained on.

    The formulas are in `rope.py`. `dynamic` and `longrope` depend on the sequence length in
    their first publications; a graph has fixed tables, so `max_positions` stands for that
    length: a model with `max_positions` up to `original_max_positions` is not stretched.
    """

    kind: Literal["linear", "dynamic", "llama3", "yarn", "longrope"]
    factor: float = 1.0
    original_max_positions: int | None = None
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    mscale: float | None = None  # yarn
    mscale_all_dim: float | None = None  # yarn
    truncate: bool = True  # yarn
    attention_factor: float | None = None  # yarn, longrope: multiplies cos and sin
    short_factor: tuple[float, ...] | None = None  # longrope: one divisor a frequency
    long_factor: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_types(self, "rope scaling")


@dataclass(frozen=True)
class Rope:
    """Rotary positions: base, rotated width (None: the whole head) and scaling."""

    theta: float = 10000.0
    width: int | None = None
    scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        check_types(self, "rope")


@dataclass(frozen=True)
class ModelConfig:
    """One decoder. Every field is a choice of its own; impossible combinations are refused.

    Sizes are counts of elements. `window` W lets a token see itself and the W - 1 tokens before
    it; one number for all layers, or one (None: no window) for each. `rope_layers` says for each
    layer whether it turns by `rope`, by `local_rope` or not at all.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    max_positions: int
    n_kv_heads: int | None = None  # None: n_heads
    head_dim: int | None = None  # None: d_model / n_heads

    position: Position = "rope"
    rope: Rope = Rope()
    local_rope: Rope | None = None
    rope_layers: tuple[RopeChoice, ...] | None = None
    position_offset: int = 0  # learned: row = position + offset
    alibi_scale: float = 1.0
    alibi_bfloat16: bool = False  # slope and slope * position are rounded to bfloat16, as Falcon's

    norm: NormKind = "rmsnorm"
    norm_placement: NormPlacement = "pre"
    norm_eps: float = 1e-5
    norm_plus_one: bool = False  # scale by 1 + weight
    norm_bias: bool = True  # layernorm only
    embedding_norm: bool = False

    feed_forward: FeedForwardKind = "swiglu"
    ff_bias: bool = False

    qkv_bias: bool = False
    attention_out_bias: bool = False
    qk_norm: QueryKeyNorm = "none"
    attention_scale: float | None = None  # None: head_dim ** -0.5
    attention_soft_cap: float | None = None
    window: int | tuple[int | None, ...] | None = None

    parallel: Parallel = "none"
    tie_embeddings: bool = True
    head_bias: bool = False
    embedding_multiplier: float = 1.0
    residual_multiplier: float = 1.0
    logit_multiplier: float = 1.0
    logit_soft_cap: float | None = None
    # training only, on the embedding and on what joins the residual; not on attention weights:
    # the fused attention of CPUs has none, and training would take twice as long
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_types(self, "model config")
        check_sizes(self)
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        if self.head_dim is None:
            object.__setattr__(self, "head_dim", self.d_model // self.n_heads)
        check_combination(self)

    @property
    def kv_width(self) -> int:
        """Elements in one cached key (or value) row of one layer."""
        return self.n_kv_heads * self.head_dim

    @property
    def scale(self) -> float:
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale

    @property
    def final_norm(self) -> bool:
        """Whether a norm stands before the head: not where each layer ends in one."""
        return self.norm_placement != "post"

    def layer_window(self, layer: int) -> int | None:
        return self.window[layer] if isinstance(self.window, tuple) else self.window

    def layer_rope(self, layer: int) -> RopeChoice:
        if self.position != "rope":
            return "none"
        return "global" if self.rope_layers is None else self.rope_layers[layer]

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ModelConfig:
        """Inverse of `to_json`; unknown keys and wrong types are errors."""
        return read_record(cls, values, "model config")
