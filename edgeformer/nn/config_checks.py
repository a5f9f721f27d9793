"""Which combinations of choices can exist. Types are already right here: see `record.py`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from edgeformer.nn.record import ConfigError

if TYPE_CHECKING:
    from edgeformer.nn.config import ModelConfig, Rope, RopeScaling

# Above these a number is a mistake or an attack: memory is taken for each before any weight is
# read. They leave room for every published model that a Jetson could hold.
LARGEST = {
    "vocab_size": 2**22,
    "d_model": 2**16,
    "n_layers": 2**10,
    "n_heads": 2**10,
    "n_kv_heads": 2**10,
    "head_dim": 2**14,
    "d_ff": 2**20,
    "max_positions": 2**20,
}
LARGEST_TABLE = 2**28  # elements of one position table: 1 GiB
LARGEST_WINDOW = 2**30  # a distance minus a window is INT32 in the graphs

POSITIVE = ("norm_eps", "embedding_multiplier", "residual_multiplier", "logit_multiplier")
POSITIVE_OR_NONE = ("attention_scale", "attention_soft_cap", "logit_soft_cap")

_YARN = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "attention_factor")
SCALING_FIELDS = {
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_positions"),
    "llama3": ("factor", "original_max_positions", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", "original_max_positions", *_YARN),
    "longrope": (
        "factor",
        "original_max_positions",
        "attention_factor",
        "short_factor",
        "long_factor",
    ),
}


def check_sizes(c: ModelConfig) -> None:
    """Each size by itself; called before `head_dim` is derived, which may still be None."""
    for name, largest in LARGEST.items():
        value = getattr(c, name)
        if value is not None and not 1 <= value <= largest:
            raise ConfigError(f"{name} is {value}; it must be from 1 to {largest}")
    if c.head_dim is None and c.d_model % c.n_heads:
        raise ConfigError(
            f"d_model {c.d_model} is not a multiple of n_heads {c.n_heads}; "
            "set head_dim, or change one of them"
        )
    if c.n_kv_heads is not None and c.n_heads % c.n_kv_heads:
        raise ConfigError(
            f"n_heads {c.n_heads} is not a multiple of n_kv_heads {c.n_kv_heads}; "
            "each key head serves the same number of query heads"
        )


def check_combination(c: ModelConfig) -> None:
    for name in POSITIVE:
        _positive(name, getattr(c, name))
    for name in POSITIVE_OR_NONE:
        if getattr(c, name) is not None:
            _positive(name, getattr(c, name))
    if not 0.0 <= c.dropout < 1.0:
        raise ConfigError(f"dropout is {c.dropout}; it must be at least 0 and below 1")
    if c.norm_plus_one and c.norm != "rmsnorm":
        raise ConfigError(f"norm_plus_one needs norm 'rmsnorm', but norm is {c.norm!r}")
    if c.parallel != "none" and c.norm_placement != "pre":
        raise ConfigError(
            f"parallel {c.parallel!r} needs norm_placement 'pre', but it is {c.norm_placement!r}"
        )
    _check_windows(c)
    _check_position(c)


def _check_windows(c: ModelConfig) -> None:
    if isinstance(c.window, tuple) and len(c.window) != c.n_layers:
        raise ConfigError(
            f"window has {len(c.window)} entries, but the model has {c.n_layers} layers"
        )
    for window in c.window if isinstance(c.window, tuple) else (c.window,):
        if window is not None and not 1 <= window <= LARGEST_WINDOW:
            raise ConfigError(
                f"window is {window}; it must be from 1 (a token sees only itself) to "
                f"{LARGEST_WINDOW}, or None for no window"
            )


def _check_position(c: ModelConfig) -> None:
    largest = LARGEST["max_positions"]
    if not 0 <= c.position_offset <= largest:
        raise ConfigError(f"position_offset is {c.position_offset}; it must be 0 to {largest}")
    if c.position_offset and c.position != "learned":
        raise ConfigError(
            f"position_offset {c.position_offset} needs position 'learned', but it is "
            f"{c.position!r}"
        )
    _check_alibi(c)
    if c.position == "rope":
        _check_ropes(c)
    else:
        for name in ("rope", "rope_layers", "local_rope"):
            default = next(f.default for f in dataclasses.fields(c) if f.name == name)
            if getattr(c, name) != default:
                raise ConfigError(f"{name} needs position 'rope', but position is {c.position!r}")
    if c.position in ("learned", "sinusoidal"):
        _check_table(c.max_positions + c.position_offset, c.d_model)


def _check_alibi(c: ModelConfig) -> None:
    for name, default in (("alibi_scale", 1.0), ("alibi_bfloat16", False)):
        if c.position != "alibi" and getattr(c, name) != default:
            raise ConfigError(
                f"{name} {getattr(c, name)} needs position 'alibi', but position is {c.position!r}"
            )
    _positive("alibi_scale", c.alibi_scale)
    if c.alibi_bfloat16:
        _check_table(c.max_positions, c.n_heads)
        if c.n_heads != c.n_kv_heads:
            raise ConfigError(
                f"alibi_bfloat16 needs a key head for each of the {c.n_heads} query heads, "
                f"but n_kv_heads is {c.n_kv_heads}"
            )


def _check_ropes(c: ModelConfig) -> None:
    if c.rope_layers is not None and len(c.rope_layers) != c.n_layers:
        raise ConfigError(
            f"rope_layers has {len(c.rope_layers)} entries, but the model has {c.n_layers} layers"
        )
    if ("local" in (c.rope_layers or ())) != (c.local_rope is not None):
        raise ConfigError(
            f"rope_layers is {c.rope_layers} and local_rope is {c.local_rope}: "
            "give local_rope exactly when a layer is 'local'"
        )
    for name, rope in (("rope", c.rope), ("local_rope", c.local_rope)):
        if rope is not None:
            _check_rope(name, rope, c)


def _check_rope(name: str, rope: Rope, c: ModelConfig) -> None:
    if rope.theta <= 1.0:
        raise ConfigError(f"{name} theta is {rope.theta}; it must be above 1")
    width = c.head_dim if rope.width is None else rope.width
    if width < 2 or width % 2 or width > c.head_dim:
        raise ConfigError(
            f"{name} width {width} must be even, at least 2 and at most head_dim {c.head_dim}"
        )
    _check_table(c.max_positions, width)
    if rope.scaling is not None:
        _check_scaling(f"{name} scaling", rope.scaling, width)


def _check_scaling(what: str, s: RopeScaling, width: int) -> None:
    for f in dataclasses.fields(s):
        allowed = f.name == "kind" or f.name in SCALING_FIELDS[s.kind]
        if not allowed and getattr(s, f.name) != f.default:
            raise ConfigError(f"{what} {s.kind!r} has no {f.name}, but it is {getattr(s, f.name)}")
    if s.factor < 1.0:
        raise ConfigError(f"{what} factor is {s.factor}; it must be at least 1")
    if s.kind != "linear":
        _check_original(what, s)
    if s.kind == "dynamic" and width < 4:
        raise ConfigError(f"{what} 'dynamic' needs a rope width of at least 4, but it is {width}")
    if s.kind == "llama3" and not 0 < s.low_freq_factor < s.high_freq_factor:
        raise ConfigError(
            f"{what} low_freq_factor {s.low_freq_factor} must be above 0 and below "
            f"high_freq_factor {s.high_freq_factor}"
        )
    if s.kind == "yarn" and not 0 < s.beta_slow < s.beta_fast:
        raise ConfigError(
            f"{what} beta_slow {s.beta_slow} must be above 0 and below beta_fast {s.beta_fast}"
        )
    for name in ("attention_factor", "mscale", "mscale_all_dim"):
        if getattr(s, name) is not None:
            _positive(f"{what} {name}", getattr(s, name))
    if s.kind == "longrope":
        _check_divisors(what, s, width)


def _check_original(what: str, s: RopeScaling) -> None:
    original, largest = s.original_max_positions, LARGEST["max_positions"]
    if original is None or not 2 <= original <= largest:
        raise ConfigError(
            f"{what} {s.kind!r} needs original_max_positions from 2 to {largest}, but it is "
            f"{original}"
        )


def _check_divisors(what: str, s: RopeScaling, width: int) -> None:
    for name in ("short_factor", "long_factor"):
        divisors = getattr(s, name)
        if divisors is None or len(divisors) != width // 2:
            raise ConfigError(
                f"{what} {name} has {0 if divisors is None else len(divisors)} entries, "
                f"but rope width {width} has {width // 2} frequencies"
            )
        for divisor in divisors:
            _positive(f"{what} {name}", divisor)


def _check_table(rows: int, width: int) -> None:
    if rows * width > LARGEST_TABLE:
        raise ConfigError(
            f"a position table of {rows} rows of {width} has {rows * width} elements; at most "
            f"{LARGEST_TABLE} are allowed: lower max_positions"
        )


def _positive(name: str, value: Any) -> None:
    if value <= 0:
        raise ConfigError(f"{name} is {value}; it must be above 0")
