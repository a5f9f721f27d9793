"""Qwen2 and Qwen2.5: llama with biases on query, key and value, and windows in later layers."""

from __future__ import annotations

from edgeformer.nn.config import ModelConfig
from edgeformer.nn.families import llama_like
from edgeformer.nn.families.family import Family
from edgeformer.nn.families.keys import Keys
from edgeformer.nn.families.rope_keys import rope_from


def config_from(keys: Keys) -> ModelConfig:
    """The biases have no key: they belong to the family."""
    sizes = llama_like.sizes(keys)
    return ModelConfig(
        **sizes,
        rope=rope_from(keys, sizes["head_dim"], sizes["max_positions"]),
        window=windows(keys, sizes["n_layers"]),
        qkv_bias=True,
    )


def windows(keys: Keys, n_layers: int) -> tuple[int | None, ...] | None:
    """`sliding_window` counts only with `use_sliding_window`."""
    window = keys.integer("sliding_window", keys.unless_null("sliding_window", 4096))
    window = window if keys.flag("use_sliding_window", False) else None
    first = keys.integer("max_window_layers", 28, least=0)
    later = [window is not None and i >= first for i in range(n_layers)]
    return llama_like.layer_windows(keys, n_layers, window, later)


FAMILY = Family("qwen2", ("Qwen2ForCausalLM", "Qwen2Model"), config_from, llama_like.tensors)
