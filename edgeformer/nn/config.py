"""What a decoder is made of: independent choices in one immutable record.

Nothing here imports torch: presets and manifests are read without it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal

from edgeformer.errors import EdgeformerError

Position = Literal["rope", "learned", "sinusoidal", "alibi", "none"]
NormKind = Literal["rmsnorm", "layernorm"]
NormPlacement = Literal["pre", "post", "sandwich", "output"]
FeedForwardKind = Literal["swiglu", "geglu", "geglu_tanh", "gelu", "gelu_tanh", "relu"]
QueryKeyNorm = Literal["none", "head", "full"]
Parallel = Literal["none", "one_norm", "two_norms"]
RopeChoice = Literal["global", "local", "none"]

GATED = ("swiglu", "geglu", "geglu_tanh")


class ConfigError(EdgeformerError):
    """A model configuration that cannot exist; the message has both numbers."""


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


@dataclass(frozen=True)
class Rope:
    """Rotary positions: base, rotated width (None: the whole head) and scaling."""

    theta: float = 10000.0
    width: int | None = None
    scaling: RopeScaling | None = None


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
    dropout: float = 0.0  # training only

    def __post_init__(self) -> None:
        if self.n_kv_heads is None:
            object.__setattr__(self, "n_kv_heads", self.n_heads)
        if self.head_dim is None:
            _positive("n_heads", self.n_heads)
            if self.d_model % self.n_heads:
                raise ConfigError(
                    f"d_model {self.d_model} is not a multiple of n_heads {self.n_heads}; "
                    "set head_dim, or change one of them"
                )
            object.__setattr__(self, "head_dim", self.d_model // self.n_heads)
        _check(self)

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
        return _record(cls, values, "model config")


def _positive(name: str, value: Any) -> None:
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
        raise ConfigError(f"{name} is {value!r}; it must be a number above 0")


def _check(c: ModelConfig) -> None:
    for name in ("vocab_size", "d_model", "n_layers", "n_heads", "d_ff", "max_positions"):
        _positive(name, getattr(c, name))
    for name in ("n_kv_heads", "head_dim", "norm_eps"):
        _positive(name, getattr(c, name))
    for name in ("attention_scale", "attention_soft_cap", "logit_soft_cap"):
        if getattr(c, name) is not None:
            _positive(name, getattr(c, name))
    if c.n_heads % c.n_kv_heads:
        raise ConfigError(
            f"n_heads {c.n_heads} is not a multiple of n_kv_heads {c.n_kv_heads}; "
            "each key head serves the same number of query heads"
        )
    if not 0.0 <= c.dropout < 1.0:
        raise ConfigError(f"dropout is {c.dropout}; it must be at least 0 and below 1")
    if c.position_offset < 0:
        raise ConfigError(f"position_offset is {c.position_offset}; it must be at least 0")
    for name, kind in (("norm_plus_one", "rmsnorm"),):
        if getattr(c, name) and c.norm != kind:
            raise ConfigError(f"{name} needs norm {kind!r}, but norm is {c.norm!r}")
    if c.parallel != "none" and c.norm_placement != "pre":
        raise ConfigError(
            f"parallel {c.parallel!r} needs norm_placement 'pre', but it is {c.norm_placement!r}"
        )
    _check_per_layer("window", c.window, c.n_layers)
    _check_per_layer("rope_layers", c.rope_layers, c.n_layers)
    windows = c.window if isinstance(c.window, tuple) else (c.window,)
    for window in windows:
        if window is not None:
            _positive("window", window)
    _check_rope(c)


def _check_per_layer(name: str, value: Any, n_layers: int) -> None:
    if isinstance(value, tuple) and len(value) != n_layers:
        raise ConfigError(f"{name} has {len(value)} entries, but the model has {n_layers} layers")


def _check_rope(c: ModelConfig) -> None:
    if c.position != "rope":
        if c.rope_layers is not None or c.local_rope is not None:
            raise ConfigError(
                f"rope_layers and local_rope need position 'rope', but it is {c.position!r}"
            )
        return
    if "local" in (c.rope_layers or ()) and c.local_rope is None:
        raise ConfigError("rope_layers names 'local', but local_rope is not given")
    for rope in (c.rope, c.local_rope):
        if rope is None:
            continue
        _positive("rope theta", rope.theta)
        width = c.head_dim if rope.width is None else rope.width
        _positive("rope width", width)
        if width % 2 or width > c.head_dim:
            raise ConfigError(f"rope width {width} must be even and at most head_dim {c.head_dim}")
        if rope.scaling is not None:
            _check_scaling(rope.scaling, width)


def _check_scaling(s: RopeScaling, width: int) -> None:
    _positive("rope scaling factor", s.factor)
    if s.kind in ("llama3", "yarn", "longrope", "dynamic") and s.original_max_positions is None:
        raise ConfigError(f"rope scaling {s.kind!r} needs original_max_positions")
    if s.kind == "llama3" and s.high_freq_factor <= s.low_freq_factor:
        raise ConfigError(
            f"rope scaling high_freq_factor {s.high_freq_factor} must be above "
            f"low_freq_factor {s.low_freq_factor}"
        )
    if s.kind == "longrope":
        for name in ("short_factor", "long_factor"):
            factors = getattr(s, name)
            if factors is None or len(factors) != width // 2:
                raise ConfigError(
                    f"rope scaling {name} has {0 if factors is None else len(factors)} entries, "
                    f"but rope width {width} has {width // 2} frequencies"
                )


def _record(cls: type, values: Any, what: str) -> Any:
    """Build a config dataclass from JSON, checking keys and types against its annotations."""
    if not isinstance(values, dict):
        raise ConfigError(f"{what} is {type(values).__name__}; it must be a table of keys")
    hints = typing.get_type_hints(cls)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise ConfigError(
            f"{what} has unknown keys: {', '.join(unknown)}; known: {', '.join(sorted(hints))}"
        )
    missing = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.name not in values
    ]
    if missing:
        raise ConfigError(f"{what} lacks required keys: {', '.join(missing)}")
    return cls(**{k: _value(hints[k], v, f"{what}: {k}") for k, v in values.items()})


def _value(hint: Any, value: Any, what: str) -> Any:
    """Check one JSON value against a type hint; lists become tuples."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in args:
            if _fits(option, value):
                return _value(option, value, what)
    elif origin is Literal and value in args and isinstance(value, str):
        return value
    elif origin is tuple and isinstance(value, (list, tuple)):
        return tuple(_value(args[0], item, what) for item in value)
    elif dataclasses.is_dataclass(hint):
        return _record(hint, value, what)
    elif _fits(hint, value):
        return float(value) if hint is float else value
    expected = " | ".join(map(repr, args)) if origin is Literal else str(hint)
    raise ConfigError(f"{what} is {value!r}; expected {expected}")


def _fits(hint: Any, value: Any) -> bool:
    if hint is type(None):
        return value is None
    if typing.get_origin(hint) is tuple:
        return isinstance(value, (list, tuple))
    if dataclasses.is_dataclass(hint):
        return isinstance(value, dict)
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is float:
        return isinstance(value, (int, float))
    return isinstance(hint, type) and isinstance(value, hint)
