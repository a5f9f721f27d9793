"""Gemma 3, text: Gemma 2 with query/key norms, five windowed layers to a full one, two RoPEs."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig, Rope
from edgeformer.nn.families import gemma2, llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.gemma import gemma_sizes
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from, rope_of_block

FULL, SLIDING = "full_attention", "sliding_attention"
GLOBAL_THETA, LOCAL_THETA = 1e6, 1e4


def config_from(keys: Keys) -> ModelConfig:
    sizes = {**gemma_sizes(keys), "max_positions": keys.integer("max_position_embeddings", 131072)}
    n_layers = sizes["n_layers"]
    keys.irrelevant("hidden_act")
    keys.only("attn_logit_softcapping")  # Gemma 3 has none, and transformers ignores it
    every = keys.integer("sliding_window_pattern", 6, also="_sliding_window_pattern")
    windows = llama_like.layer_windows(
        keys,
        n_layers,
        keys.integer("sliding_window", keys.unless_null("sliding_window", 4096)),
        [(i + 1) % every != 0 for i in range(n_layers)],
    )
    sliding = [w is not None for w in windows] if windows else [False] * n_layers
    full, local = _ropes(keys, sizes["head_dim"], sizes["max_positions"])
    if not any(sliding):
        local, layers = None, None
    else:
        layers = tuple("local" if s else "global" for s in sliding)
    return ModelConfig(
        **sizes,
        **{**gemma2.capped_sandwich(keys, None, None), "attention_soft_cap": None},
        qk_norm="head",
        rope=full,
        local_rope=local,
        rope_layers=layers,
        window=windows,
    )


def _ropes(keys: Keys, head_dim: int, max_positions: int) -> tuple[Rope, Rope]:
    """transformers 5 has a block for each kind of layer, 4.x one and `rope_local_base_freq`."""
    blocks = keys.table("rope_parameters") or {}
    if not {FULL, SLIDING} & set(blocks):
        local = Rope(theta=keys.number("rope_local_base_freq", LOCAL_THETA))
        return rope_from(keys, head_dim, max_positions, theta=GLOBAL_THETA), local
    keys.only("rope_scaling", {})
    outer = Keys(blocks, f"{keys.where}: rope_parameters")
    ropes = []
    for name, default, old in (
        (FULL, GLOBAL_THETA, "rope_theta"),
        (SLIDING, LOCAL_THETA, "rope_local_base_freq"),
    ):
        block = Keys(outer.table(name) or {}, f"{outer.where}: {name}")
        theta = block.number("rope_theta", keys.number(old, default))
        part = block.number("partial_rotary_factor", 1.0)
        ropes.append(rope_of_block(block, theta, part, head_dim, max_positions))
        block.finish()
    outer.finish()
    return ropes[0], ropes[1]


FAMILY = Family(
    "gemma3_text", ("Gemma3ForCausalLM", "Gemma3TextModel"), config_from, gemma2.tensors
)
